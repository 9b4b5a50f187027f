"""AgentRun: pins the agent's revision, the model and its price, and hands the run to the workers; cancels it."""

from sqlalchemy.ext.asyncio import AsyncConnection

from corral.agents.job import PROGRAM, Job, PinnedSecret
from corral.base import clock, money
from corral.kinds import Problem, Reason
from corral.kinds.agent import Agent, AgentSpec
from corral.kinds.agentrun import AgentRun
from corral.kinds.project import TEMPLATES
from corral.store import Tx, blobs, executions, objects
from corral.store.objects import Stored
from corral.verbs import models
from corral.verbs.models import refused
from corral.verbs.services import Caller, Services


async def create(services: Services, caller: Caller, tx: Tx, new: Stored, asked: AgentRun) -> Stored:
    """Admit the run: everything it depends on is copied into it now. Raises Problem."""
    spec = asked.spec
    if spec.deadline is not None and spec.deadline <= clock.now():
        raise refused("spec.deadline", "is in the past", "Give a moment in the future, or a duration such as 30m.")
    if spec.state == "Cancelled":
        raise refused("spec.state", "a new run cannot be Cancelled", "Leave state out.")
    # An agent that the project does not have is looked for among the ready-made ones.
    stored_agent = await objects.get(tx.conn, Agent.__name__, new.namespace, spec.agent) or await objects.get(
        tx.conn, Agent.__name__, TEMPLATES, spec.agent
    )
    if stored_agent is None:
        fix = f"Create it first, or see `corral get agents -p {new.namespace}`."
        raise refused("spec.agent", f"there is no agent {spec.agent!r} in the project {new.namespace!r}", fix)
    agent = AgentSpec.model_validate(stored_agent.spec)
    if agent.state == "Stopped":
        fix = f'Start it: corral patch agent/{spec.agent} --patch \'{{"spec":{{"state":"Running"}}}}\''
        raise Problem(Reason.AgentStopped, f"the agent {spec.agent!r} is stopped", fix=fix)
    if agent.network.egress.policy != "Deny":
        text = f"the agent asks for network {agent.network.egress.policy}, and this server's sandboxes have none"
        fix = "Set the agent's network.egress.policy to Deny."
        raise Problem(Reason.Unsupported, text, fix=fix)
    field = "spec.model" if spec.model else "the agent's model"
    model = await models.pin(services, caller, tx.conn, new.namespace, spec.model or agent.model, field)
    job = Job(
        run=new.name,
        prompt=spec.input,
        keep_alive=spec.keep_alive,
        system=agent.system,
        max_tokens=agent.max_tokens,
        max_tool_calls=agent.max_tool_calls,
        model=model,
        image=agent.image,
        working_dir=agent.working_dir,
        setup=agent.setup,
        env={variable.name: variable.value for variable in agent.env},
        secrets=await _secrets(tx.conn, new.namespace, agent),
        keep_sandbox=new.metadata.get("annotations", {}).get("corral.dev/keep-sandbox") == "true",
    )
    cap = money.nano(agent.per_run_max_cost_usd)
    deadline = None if spec.deadline is None else int(spec.deadline.timestamp() * 1000)
    await executions.submit(tx, new.uid, PROGRAM, await blobs.keep(tx, job.record()), cap=cap, deadline=deadline)
    new.status = asked.status.wire() | {
        "phase": "Queued",
        "revision": stored_agent.generation,
        "model": model.id,
        "cost": {"totalUSD": "0.00", "heldUSD": "0.00", "limitUSD": money.usd(cap)},
        "observedGeneration": 1,
    }
    return new


async def update(services: Services, caller: Caller, tx: Tx, old: Stored, new: Stored, asked: AgentRun) -> Stored:
    """Cancel the run, if that is what changed. Raises Problem."""
    if old.spec["state"] == new.spec["state"]:
        return new
    if new.spec["state"] == "Running":
        raise Problem(Reason.Conflict, "a cancelled run cannot be started again", fix="Create a new run.")
    row = await executions.request_cancel(tx, old.uid)
    if row is None:
        phase = old.status.get("phase", "")
        raise Problem(Reason.AgentRunFinished, f"the run {old.name!r} has finished: it is {phase}")
    new.status = {**old.status, "phase": "Cancelling", "reason": "", "message": ""}
    return new


async def delete(services: Services, caller: Caller, tx: Tx, old: Stored) -> None:
    """A run that is deleted is cancelled first; the workers release its sandbox."""
    await executions.request_cancel(tx, old.uid)


async def _secrets(conn: AsyncConnection, namespace: str, agent: AgentSpec) -> list[PinnedSecret]:
    pinned: list[PinnedSecret] = []
    owner: dict[str, str] = {}
    for name in agent.secrets:
        secret = await objects.get(conn, "Secret", namespace, name)
        if secret is None:
            fix = f"Create it: corral create secret {name} --from-literal KEY=VALUE"
            raise refused("the agent's secrets", f"there is no secret {name!r} in the project", fix)
        for key in secret.status.get("keys", []):
            if key in owner:
                message = f"the secrets {owner[key]!r} and {name!r} both have the key {key!r}, which is one file"
                raise refused("the agent's secrets", message, "Give the keys different names.")
            owner[key] = name
        pinned.append(PinnedSecret(secret.uid, int(secret.status.get("version", 0))))
    return pinned
