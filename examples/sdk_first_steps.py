"""Run an agent to the end, then talk to a run that is kept alive.

Start a server with `corral up`, then: python examples/sdk_first_steps.py
"""

import corral


def main() -> None:
    agent = corral.Agent("first-steps", system="You are careful.", per_run_max_cost="0.25")
    print(agent.remote("Use the shell to print the Python version"))

    with agent.submit("Write a haiku about sandboxes to haiku.txt", keep_alive=True) as run:
        print(run.answer())
        run.send("message", "Now count its words with the shell")
        print(run.answer())
        print(f"{run.name}: {len(run.steps())} steps, {run.cost()} USD")


if __name__ == "__main__":
    main()
