#!/usr/bin/env bash
# Conformance drive of the public `nodus` CLI, unmodified, against any Nodus-compatible server.
#
#   drive_cli.sh [BASE_URL] [CASE_REGEX]
#
# One line a case: PASS name | FAIL name: why | SKIP name: why.  Exit status: number of FAILs (at most 100).
# Environment:
#   NODUS_BIN        the CLI                                (default: nodus on PATH)
#   NODUS_API_KEY    bearer credential sent to the server   (default nodus_test_key)
#   DRIVE_PROJECT    project                                (default default)
#   DRIVE_WAIT       bound for one `nodus wait`             (default 120s)
#   DRIVE_SKIP       regex of case names to skip            (e.g. 'portforward|shell')
#   DRIVE_BROWSER_APPROVE shell command run with URL set, to approve `nodus login` on the page at URL
#   DRIVE_DEVICE_APPROVE  shell command run with USER_CODE set, to approve `nodus login --device` (":" when automatic)
#   DRIVE_VERBOSE=1  print the output of failing commands
# Only loopback base URLs are accepted unless DRIVE_ALLOW_REMOTE=1.
set -u
BASE=${1:-${NODUS_API_URL:-http://127.0.0.1:18080}}
ONLY=${2:-.}
case "$BASE" in http://127.0.0.1:*|http://localhost:*|https://127.0.0.1:*) ;; *) [ "${DRIVE_ALLOW_REMOTE:-}" = 1 ] || { echo "refusing non-loopback $BASE"; exit 100; } ;; esac
N=${NODUS_BIN:-nodus}
KEY=${NODUS_API_KEY:-nodus_test_key}
P=${DRIVE_PROJECT:-default}
W=${DRIVE_WAIT:-120s}
PY=${DRIVE_PYTHON:-python3}
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
export HOME=$TMP/home; mkdir -p "$HOME"
export NODUS_API_URL=$BASE NODUS_API_KEY=$KEY NODUS_PROJECT=$P
unset NODUS_ORG NODUS_CONTEXT NODUS_CONFIG NODUS_BASE_URL
cd "$TMP"
FAILS=0; PASSES=0; SKIPS=0
OUT=; RC=0
SUF=$(printf '%05d' $((RANDOM % 100000)))

run() { OUT=$(timeout "${T:-150}" "$N" "$@" </dev/null 2>&1); RC=$?; }
pass() { PASSES=$((PASSES+1)); echo "PASS $1"; }
fail() { FAILS=$((FAILS+1)); echo "FAIL $1: $2"; [ "${DRIVE_VERBOSE:-}" = 1 ] && printf '%s\n' "$OUT" | sed 's/^/     | /' | head -40; return 0; }
skip() { SKIPS=$((SKIPS+1)); echo "SKIP $1: $2"; }
want() { [[ $1 =~ $ONLY ]] || return 1; if [ -n "${DRIVE_SKIP:-}" ] && [[ $1 =~ $DRIVE_SKIP ]]; then skip "$1" DRIVE_SKIP; return 1; fi; return 0; }
# t NAME RC REGEX command...   (RC: a number, * or !0; REGEX: - for none)
t() { local name=$1 rc=$2 re=$3; shift 3; want "$name" || return 0; run "$@"; judge "$name" "$rc" "$re"; }
judge() {
  case $2 in '*') ;; '!0') [ $RC -ne 0 ] || { fail "$1" "exit 0, expected a failure"; return 0; } ;; *) [ $RC -eq "$2" ] || { fail "$1" "exit $RC, expected $2: $(printf '%s' "$OUT" | tr '\n' ' ' | cut -c1-160)"; return 0; } ;; esac
  if [ "$3" != - ] && ! printf '%s' "$OUT" | tr '\n' '\001' | grep -Eq -- "$3"; then fail "$1" "output does not match /$3/: $(printf '%s' "$OUT" | tr '\n' ' ' | cut -c1-160)"; return 0; fi
  pass "$1"
}
# tj NAME 'python expression over d' command...   (the command prints JSON)
tj() { local name=$1 ex=$2; shift 2; want "$name" || return 0; run "$@"; [ $RC -eq 0 ] || { fail "$name" "exit $RC: $(printf '%s' "$OUT" | tr '\n' ' ' | cut -c1-160)"; return 0; }
  local r; r=$(printf '%s' "$OUT" | $PY -c "import json,sys
d=json.load(sys.stdin)
print('ok' if ($ex) else 'no')" 2>&1 | tail -1)
  [ "$r" = ok ] && pass "$name" || fail "$name" "not true: $ex ($r)"; }
q() { timeout 60 "$N" "$@" </dev/null >/dev/null 2>&1; }
jp() { timeout 30 "$N" get "$1" -o "jsonpath=$2" </dev/null 2>/dev/null; }
until_jp() { local i; for i in $(seq "${4:-60}"); do [[ "$(jp "$1" "$2")" =~ $3 ]] && return 0; sleep 0.5; done; return 1; }

# ---------------------------------------------------------------- manifests of the guides
cat > agent.yaml <<'E'
apiVersion: nodus.dev/v1
kind: Agent
metadata:
  name: hello-agent
spec:
  system: |
    You are a careful assistant. Run shell commands in your sandbox to check your work, and answer in one short
    paragraph.
  # Nodus's Claude: each prompt is routed to Haiku, Sonnet, Opus or Fable, and billed from your credits.
  model:
    access: Nodus
  perRunMaxCostUSD: "0.50"
E
cat > run.yaml <<'E'
apiVersion: nodus.dev/v1
kind: AgentRun
metadata:
  name: hello-agent-run
spec:
  agent: hello-agent
  input: "Use the shell to print the Python version, then tell me which one it is."
E
cat > agent2.yaml <<'E'
apiVersion: nodus.dev/v1
kind: Agent
metadata:
  name: parallel-agents-worker
spec:
  system: |
    Follow the task's requested answer format; otherwise answer in one short sentence.
  model:
    access: Nodus
    families: [haiku]
  maxTokens: 1024
  perRunMaxCostUSD: "0.10"
E
cat > group.yaml <<'E'
apiVersion: nodus.dev/v1
kind: AgentGroup
metadata:
  name: parallel-agents
spec:
  agent: parallel-agents-worker
  limits:
    maxActive: 2 # at most two runs go at once
  maxCostUSD: "0.60" # a run starts only while its own cap still fits under what is left
E
cat > runs.yaml <<'E'
apiVersion: nodus.dev/v1
kind: AgentRun
metadata:
  name: parallel-agents-a
spec:
  agent: parallel-agents-worker
  group: parallel-agents
  taskKey: a
  input: "What is the capital of France?"
---
apiVersion: nodus.dev/v1
kind: AgentRun
metadata:
  name: parallel-agents-b
spec:
  agent: parallel-agents-worker
  group: parallel-agents
  taskKey: b
  input: "What is the capital of Japan?"
---
apiVersion: nodus.dev/v1
kind: AgentRun
metadata:
  name: parallel-agents-c
spec:
  agent: parallel-agents-worker
  group: parallel-agents
  taskKey: c
  dependsOn: [a, b] # c waits until a and b have succeeded
  input: "Say in one sentence that both questions have been answered."
E
cat > keep.yaml <<E
apiVersion: nodus.dev/v1
kind: AgentRun
metadata:
  name: keep-$SUF
spec:
  agent: hello-agent
  keepAlive: true
  input: "Summarize the production logs in one sentence."
E
cat > agent002.yaml <<'E'
apiVersion: nodus.dev/v1
kind: Agent
metadata:
  name: hello-agent-002
spec:
  workingDir: /workspace
  continuity: {mode: Snapshotted, stateDir: /workspace}
  setup: printf 'workspace-ready\n' > ready.txt
  system: |
    You are a careful assistant.
  model:
    access: Nodus
  perRunMaxCostUSD: "0.50"
E
cat > run002.yaml <<E
apiVersion: nodus.dev/v1
kind: AgentRun
metadata:
  name: run002-$SUF
spec:
  agent: hello-agent-002
  model:
    access: Nodus
  input: "Use the shell to print the Python version, then tell me which one it is."
E
cat > subagents.yaml <<E
apiVersion: nodus.dev/v1
kind: AgentRun
metadata:
  name: shared-subagents-$SUF
spec:
  agent: hello-agent
  # Run at most two ready subtasks together; omit or use zero for Auto.
  parallelism: 2
  input: |
    Use one parallel_agents batch with these named tasks in our shared sandbox:
    1. primes: Compute the sum of the primes below 30 using Python. Write the number to /tmp/primes.txt.
    2. squares: Compute the sum of the squares from 1 through 5 using Python. Write the number to /tmp/squares.txt.
    3. total: After primes and squares complete, read their files, sum the numbers, and write /tmp/total.txt.
    Declare each task's own output path in writes. total depends_on primes and squares; the first two run concurrently.
    After the batch finishes, read all three files yourself, verify them, call verify_team with a Python assertion for both numbers
    and their total, and reply with exactly: primes=129 squares=55 total=184
E
cat > byok.yaml <<'E'
apiVersion: nodus.dev/v1
kind: Agent
metadata:
  name: byok-agent
spec:
  model:
    access: BYOK
    name: claude-sonnet-5-5
    apiKeySecret: anthropic-key
E
cat > budget.yaml <<'E'
apiVersion: nodus.dev/v1
kind: Budget
metadata:
  name: drive-showcase
spec:
  limitUSD: "5.00"
  period: Total
  action: Block
  scope:
    project: default
E
cat > secret.yaml <<'E'
apiVersion: nodus.dev/v1
kind: Secret
metadata:
  name: drive-applied
spec:
  stringData:
    TOKEN: s3cr3t-value-in-manifest
E

# ---------------------------------------------------------------- leftovers of an earlier drive
for x in ag/parallel-agents ag/parallel-agents2 ag/drive-cancel ag/drive-cap ag/drive-rules ag/drive-empty ar/hello-agent-run ar/triage ar/drive-ca sb/drive-sb sb/drive-shell secret/anthropic-key secret/drive-applied budget/drive-showcase budget/drive-research agent/byok-agent agent/parallel-agents-worker agent/hello-agent-002 agent/hello-agent; do q delete "$x" --ignore-not-found --wait --timeout 60s; done
rm -rf "$HOME/.nodus/cache"

# ---------------------------------------------------------------- discovery, identity, docs
t discovery.api_resources 0 'agentgroups +ag +nodus.dev/v1 +true +AgentGroup' api-resources
for k in 'agentruns +ar ' 'agents ' 'sandboxes +sb' 'processes' 'secrets' 'events' 'budgets'; do t "discovery.has_${k%% *}" 0 "(^|.)$k" api-resources; done
t identity.whoami 0 'Principal:.*Project:' whoami
tj identity.whoami_json "'kind' in d and 'scopes' in d and 'projects' in d" whoami -o json
t identity.can_i_create_runs 0 '^yes' auth can-i create agentruns
t identity.auth_token 0 'ExecCredential' auth token
t identity.version 0 'nodus [0-9]' version
t docs.explain_kind 0 'KIND: +AgentRun.*FIELDS:.*spec' explain agentrun
t docs.explain_field 0 'FIELD: input' explain agentrun.spec.input
t docs.explain_short_recursive 0 'maxCostUSD' explain ag.spec --recursive
t docs.explain_agent_model 0 'families' explain agent.spec.model
t errors.unknown_kind '!0' - get frobnicators
t errors.not_found 1 'NotFound' get ar/no-such-run

# ---------------------------------------------------------------- agent and run 
t agent.apply_created 0 'agent/hello-agent created' apply -f agent.yaml
t agent.apply_unchanged 0 'agent/hello-agent unchanged' apply -f agent.yaml
tj agent.get_json "d['spec']['perRunMaxCostUSD']=='0.50' and d['metadata']['namespace']=='$P' and d['metadata']['uid'] and d['metadata']['resourceVersion'] and d['metadata']['creationTimestamp']" get agent/hello-agent -o json
tj agent.last_applied "'nodus.dev/last-applied' in d['metadata']['annotations']" get agent/hello-agent -o json
sed 's/"0.50"/"0.60"/' agent.yaml > agent_b.yaml
t agent.diff_same 0 - diff -f agent.yaml
t agent.diff_changed 1 'perRunMaxCostUSD: "0.60"' diff -f agent_b.yaml
t agent.dry_run_server 0 'configured \(server dry run\)' apply -f agent_b.yaml --dry-run=server
tj agent.dry_run_changes_nothing "d['spec']['perRunMaxCostUSD']=='0.50'" get agent/hello-agent -o json
t agent.apply_configured 0 'agent/hello-agent configured' apply -f agent_b.yaml
t agent.merge_other_writer 0 'labeled' label agent/hello-agent drive=kept
sed '/perRunMaxCostUSD/d' agent.yaml > agent_c.yaml
t agent.apply_removes_field 0 'configured' apply -f agent_c.yaml
tj agent.three_way_result "d['metadata']['labels'].get('drive')=='kept' and d['spec'].get('perRunMaxCostUSD') in (None,'','1.00')" get agent/hello-agent -o json
t agent.patch_json 0 'patched' patch agent/hello-agent --type json --patch '[{"op":"add","path":"/spec/maxTokens","value":2048}]'
t agent.patch_max_parallel 0 'agent/hello-agent patched' patch agent/hello-agent --patch '{"spec":{"maxParallelAgents":0}}'
t agent.annotate 0 'annotated' annotate agent/hello-agent drive.example/x=y
t agent.apply_final 0 - apply -f agent.yaml
t agent.unknown_field_rejected 1 'Invalid.*spec.noSuchField' patch agent/hello-agent --patch '{"spec":{"noSuchField":1}}'
t agent.table 0 'NAME.*hello-agent' get agents
t agent.describe 0 'Name: +hello-agent.*Kind: +Agent.*Events:' describe agent/hello-agent
t run.apply_created 0 'agentrun/hello-agent-run created' apply -f run.yaml
t run.wait_succeeded 0 'condition met' wait agentrun/hello-agent-run "--for=jsonpath={.status.phase}=Succeeded" --timeout="$W"
t run.get_yaml 0 'phase: Succeeded' get agentrun/hello-agent-run -o yaml
tj run.status_answer "d['status']['answer']['preview'] and len(d['status']['answer']['sha256'])==64 and d['status']['answer']['size']>0" get ar/hello-agent-run -o json
tj run.status_turns "d['status']['turns'][0]['prompt']=='input' and d['status']['turns'][0]['model'] and d['status']['turns'][0]['routedBy'] in ('jev','fallback','fixed') and 'costUSD' in d['status']['turns'][0]" get ar/hello-agent-run -o json
tj run.status_misc "d['status']['cost']['totalUSD'] is not None and d['status']['startTime'] and d['status']['completionTime'] and d['status']['steps']['total']>0 and d['status']['dispatches']>=1 and d['status']['revision']>=1" get ar/hello-agent-run -o json
t run.answer 0 '.' agentrun answer hello-agent-run
if want run.answer_matches_sha256; then run agentrun answer hello-agent-run; A=$OUT; S=$(jp ar/hello-agent-run '{.status.answer.sha256}')
  G=$(printf '%s' "$A" | sha256sum | cut -d' ' -f1); G2=$(printf '%s\n' "$A" | sha256sum | cut -d' ' -f1); if [ "$S" = "$G" ] || [ "$S" = "$G2" ]; then pass run.answer_matches_sha256; else fail run.answer_matches_sha256 "status $S, printed $G"; fi; fi
t run.steps 0 'STEP +NAME +EFFECT +OUTCOME.*Completed' agentrun steps hello-agent-run
tj run.steps_json "d['items'] and all(isinstance(s['id'],int) and s['name'] and s['effect'] and s['outcome'] for s in d['items'])" agentrun steps hello-agent-run -o json
t run.describe 0 'Phase: +Succeeded.*Cost:.*Events:.*TYPE +REASON' describe ar/hello-agent-run
t run.events_for 0 'REASON' events --for ar/hello-agent-run
tj run.events_json "len(d['items'])>0 and all(e['involvedObject']['name'] and e['reason'] and e['type'] and e.get('lastTime') for e in d['items'])" events --for ar/hello-agent-run -o json
t run.open_print 0 'https?://.*hello-agent-run' open ar/hello-agent-run --print
t run.apply_unchanged 0 'unchanged' apply -f run.yaml
sed 's/Python version/Ruby version/' run.yaml > run_b.yaml
t run.input_immutable 1 '(FieldImmutable|Invalid)' apply -f run_b.yaml
q delete ar/triage --ignore-not-found --wait
t run.create_without_file 0 'agentrun/triage created' create agentrun triage --agent hello-agent --prompt "Summarize the logs"
t run.create_identical_returns_it 0 'agentrun/triage created' create agentrun triage --agent hello-agent --prompt "Summarize the logs"
t run.create_other_spec_conflicts 1 'AlreadyExists' create agentrun triage --agent hello-agent --prompt "Another"
t run.create_unknown_agent_refused 1 - create agentrun "nope-$SUF" --agent no-such-agent --prompt hi
t run.template 0 'created' create agentrun drive-ca --agent claude-assistant --prompt "Say hi"
t run.jsonpath 0 '^(Queued|Running|Waiting|Succeeded)' get ar/triage -o 'jsonpath={.status.phase}'
t run.names 0 'agentrun.nodus.dev/triage' get ar -o name
t run.mine 0 'triage' get ar --mine
t run.all_projects 0 "NAMESPACE.*$P +triage" get ar -A
t run.wide 0 'NAME' get ar -o wide
t run.selector_none 0 'No resources found' get ar -l drive-no=such
t run.finished_refuses_message 1 'AgentRunFinished' agentrun send hello-agent-run "more"
t run.wait_times_out_124 124 'timed out' wait ar/hello-agent-run "--for=jsonpath={.status.phase}=Failed" --timeout=2s
t run.wait_missing 1 'NotFound' wait ar/no-such "--for=jsonpath={.status.phase}=Failed" --timeout=2s
t run.triage_done 0 'condition met' wait ar/triage "--for=jsonpath={.status.phase}=Succeeded" --timeout="$W"
q wait ar/drive-ca "--for=jsonpath={.status.phase}=Succeeded" --timeout="$W"
t run.delete_wait 0 'agentrun/triage deleted' delete ar/triage --wait
t run.delete_missing 1 'NotFound' delete ar/triage
t run.delete_ignore_missing 0 - delete ar/triage --ignore-not-found
if want run.create_generate_name; then printf 'apiVersion: nodus.dev/v1\nkind: AgentRun\nmetadata: {generateName: gen-%s-}\nspec: {agent: hello-agent, input: "hi"}\n' "$SUF" > gen.yaml; run create -f gen.yaml -o json; G=$(printf '%s' "$OUT" | $PY -c 'import json,sys;print(json.load(sys.stdin)["metadata"]["name"])' 2>/dev/null); if [[ $G == gen-$SUF-?* ]]; then pass run.create_generate_name; q delete "ar/$G"; else fail run.create_generate_name "$(printf '%s' "$OUT" | head -c 120)"; fi; fi

# ---------------------------------------------------------------- keepAlive, messages, deadline, stopped agent
t keep.apply 0 'created' apply -f keep.yaml
t keep.waits 0 'condition met' wait "ar/keep-$SUF" "--for=jsonpath={.status.phase}=Waiting" --timeout="$W"
tj keep.reason "d['status']['reason']=='WaitingForMessage'" get "ar/keep-$SUF" -o json
tj keep.send "d['messageKey']=='staging-1' and d['seq']>=1" agentrun send "keep-$SUF" "Now do the same for the staging logs" --key staging-1 -o json
S1=$(printf '%s' "$OUT" | $PY -c 'import json,sys;print(json.load(sys.stdin)["seq"])' 2>/dev/null)
tj keep.send_same_key_once "d['messageKey']=='staging-1' and d['seq']==${S1:-0}" agentrun send "keep-$SUF" "Now do the same for the staging logs" --key staging-1 -o json
t keep.send_without_key 0 'message [0-9]+ sent to' agentrun send "keep-$SUF" "And the test logs"
if want keep.three_turns; then until_jp "ar/keep-$SUF" '{.status.turns[*].prompt}' '^[^ ]+ [^ ]+ [^ ]+$' 240 && pass keep.three_turns || fail keep.three_turns "turns: $(jp "ar/keep-$SUF" '{.status.turns[*].prompt}')"; fi
if want keep.turn_named_by_key; then [[ "$(jp "ar/keep-$SUF" '{.status.turns[1].prompt}')" == staging-1 ]] && pass keep.turn_named_by_key || fail keep.turn_named_by_key "$(jp "ar/keep-$SUF" '{.status.turns[1].prompt}')"; fi
t keep.cancel 0 'canceled' cancel "agentrun/keep-$SUF"
t keep.cancelled 0 'condition met' wait "ar/keep-$SUF" "--for=jsonpath={.status.phase}=Cancelled" --timeout="$W"
t keep.cancelled_refuses 1 'AgentRunFinished' agentrun send "keep-$SUF" "more"
q delete "ar/keep-$SUF"
if want deadline.fails; then D=$(date -u -d '+8 seconds' +%Y-%m-%dT%H:%M:%SZ); sed "s/name: keep-.*/name: dl-$SUF/; s/keepAlive: true/keepAlive: true\n  deadline: \"$D\"/" keep.yaml > dl.yaml; q apply -f dl.yaml; run wait "ar/dl-$SUF" "--for=jsonpath={.status.reason}=DeadlineExceeded" --timeout="$W"; judge deadline.fails 0 'condition met'; fi
t deadline.phase_failed 0 '^Failed' get "ar/dl-$SUF" -o 'jsonpath={.status.phase}'
q delete "ar/dl-$SUF"
t stopped.stop 0 'stopped' stop agent/hello-agent
t stopped.refuses 1 'AgentStopped' create agentrun "st-$SUF" --agent hello-agent --prompt hi
t stopped.start 0 'started' start agent/hello-agent

# ---------------------------------------------------------------- team
t team.apply 0 'created' apply -f subagents.yaml
t team.create_parallelism 0 'created' create agentrun "par-$SUF" --agent hello-agent --prompt "TASK" --parallelism 6
if want team.done; then if until_jp "ar/shared-subagents-$SUF" '{.status.phase}' '^(Succeeded|Failed|Waiting)$' 240; then pass team.done; else fail team.done "$(jp "ar/shared-subagents-$SUF" '{.status.phase}')"; fi; fi
t team.show 0 'tasks complete' agentrun team "shared-subagents-$SUF"
tj team.json "'summary' in d and 'items' in d and d['summary']['action'] in ('None','ViewAnswer','SendMessage','ManageTasks','InspectRun') and d['summary'].get('message') is not None" agentrun team "shared-subagents-$SUF" -o json
t team.steps 0 'STEP' agentrun steps "shared-subagents-$SUF"
if want team.retry_task; then TID=$(timeout 30 "$N" agentrun team "shared-subagents-$SUF" -o json 2>/dev/null | $PY -c 'import json,sys
for i in json.load(sys.stdin)["items"]:
    if "Retry" in (i.get("actions") or []): print(i["id"]); break' 2>/dev/null)
  if [ -n "$TID" ]; then
    t team.retry_task 0 'Retry request saved' agentrun retry-task "shared-subagents-$SUF" "$TID" --key "retry-$SUF"
    tj team.retry_same_key "d['messageKey']=='retry-$SUF'" agentrun retry-task "shared-subagents-$SUF" "$TID" --key "retry-$SUF" -o json
  else
    # no failed task to manage: the three commands must reach the server and be refused with a Status, not a 404 route
    run agentrun retry-task "shared-subagents-$SUF" task-1-2 --key "retry-$SUF"; judge team.retry_task '*' '(request saved|Error from server)'
  fi; fi
t team.redirect_task '*' '(request saved|Error from server)' agentrun redirect-task "shared-subagents-$SUF" task-1-2 --instruction "Check the missing edge cases" --key "redirect-$SUF"
t team.cancel_task '*' '(request saved|Error from server)' agentrun cancel-task "shared-subagents-$SUF" task-1-2 --key "cancel-$SUF"
q cancel "ar/par-$SUF"; q delete "ar/par-$SUF"; q delete "ar/shared-subagents-$SUF"

# ---------------------------------------------------------------- groups
t group.apply_agent 0 'created' apply -f agent2.yaml
t group.apply_group 0 'agentgroup/parallel-agents created' apply -f group.yaml
t group.apply_runs_multidoc 0 'parallel-agents-a created.*parallel-agents-b created.*parallel-agents-c created' apply -f runs.yaml
t group.table 0 'NAME +PHASE.*RUNS +ACTIVE.*parallel-agents +Running' get ag
t group.seal 0 'agentgroup/parallel-agents patched' patch ag/parallel-agents --patch '{"spec":{"sealed":true}}'
t group.sealed_refuses 1 'AgentGroupClosed' create -f <(printf 'apiVersion: nodus.dev/v1\nkind: AgentRun\nmetadata: {name: parallel-agents-z}\nspec: {agent: parallel-agents-worker, group: parallel-agents, taskKey: z, input: hi}\n')
t group.unseal_refused 1 - patch ag/parallel-agents --patch '{"spec":{"sealed":false}}'
t group.wait 0 'condition met' wait ag/parallel-agents "--for=jsonpath={.status.phase}=Succeeded" --timeout="$W"
t group.table_done 0 'parallel-agents +Succeeded +3/3 +0' get ag
t group.runs_by_field 0 'parallel-agents-a.*parallel-agents-b.*parallel-agents-c' get ar --field-selector spec.group=parallel-agents
t group.answer 0 '.' agentrun answer parallel-agents-c
tj group.counts "d['status']['counts']=={**d['status']['counts'],'total':3,'succeeded':3,'queued':0,'active':0,'waiting':0,'failed':0,'cancelled':0}" get ag/parallel-agents -o json
tj group.cost "float(d['status']['cost']['limitUSD'])==0.60 and float(d['status']['cost']['totalUSD'])<=0.60" get ag/parallel-agents -o json
tj group.c_after_a_and_b "(lambda r: r['c']['startTime']>=max(r['a']['completionTime'],r['b']['completionTime']))({i['spec']['taskKey']:i['status'] for i in d['items']})" get ar --field-selector spec.group=parallel-agents -o json
t group.patch_max_active 0 'patched' patch ag/parallel-agents --patch '{"spec":{"limits":{"maxActive":4}}}'
t group.create_without_file 0 'agentgroup/parallel-agents2 created' create agentgroup parallel-agents2 --agent parallel-agents-worker --max-active 2 --max-cost 0.60
t group.cap_raise 0 'patched' patch ag/parallel-agents2 --patch '{"spec":{"maxCostUSD":"0.80"}}'
t group.cap_lower_refused 1 - patch ag/parallel-agents2 --patch '{"spec":{"maxCostUSD":"0.10"}}'
t group.run_agent_mismatch 1 '(Invalid|Conflict)' create -f <(printf 'apiVersion: nodus.dev/v1\nkind: AgentRun\nmetadata: {name: parallel-agents2-q}\nspec: {agent: hello-agent, group: parallel-agents2, taskKey: q, input: hi}\n')
t group.run_name_mismatch 1 'Invalid' create -f <(printf 'apiVersion: nodus.dev/v1\nkind: AgentRun\nmetadata: {name: other}\nspec: {agent: parallel-agents-worker, group: parallel-agents2, taskKey: q, input: hi}\n')
t group.unknown_dependency 1 - create -f <(printf 'apiVersion: nodus.dev/v1\nkind: AgentRun\nmetadata: {name: parallel-agents2-q}\nspec: {agent: parallel-agents-worker, group: parallel-agents2, taskKey: q, dependsOn: [nope], input: hi}\n')
t group.nameless_run 0 'created' create -f <(printf 'apiVersion: nodus.dev/v1\nkind: AgentRun\nspec: {agent: parallel-agents-worker, group: parallel-agents2, taskKey: m, input: hi}\n')
t group.nameless_run_named 0 'parallel-agents2-m' get ar --field-selector spec.group=parallel-agents2
t group.delete_removes_runs 0 'deleted' delete ag/parallel-agents2
if want group.members_gone; then for i in $(seq 40); do run get ar --field-selector spec.group=parallel-agents2; [[ $OUT == *"No resources found"* ]] && break; sleep 0.5; done; judge group.members_gone 0 'No resources found'; fi
t group.delete 0 'agentgroup/parallel-agents deleted' delete ag/parallel-agents --wait
if want group.empty_sealed_succeeds; then q create agentgroup drive-empty --agent parallel-agents-worker; q patch ag/drive-empty --patch '{"spec":{"sealed":true}}'; run wait ag/drive-empty "--for=jsonpath={.status.phase}=Succeeded" --timeout=30s; judge group.empty_sealed_succeeds 0 'condition met'; q delete ag/drive-empty; fi
if want group.cap_too_small_blocks; then q create agentgroup drive-cap --agent parallel-agents-worker --max-active 2 --max-cost 0.05; q create -f <(printf 'apiVersion: nodus.dev/v1\nkind: AgentRun\nmetadata: {name: drive-cap-x}\nspec: {agent: parallel-agents-worker, group: drive-cap, taskKey: x, input: hi}\n')
  if until_jp ar/drive-cap-x '{.status.phase}/{.status.reason}' '^Queued/GroupWait$' 40 && until_jp ag/drive-cap '{.status.blockedReasons[*].reason}' MaxCostReached 20; then pass group.cap_too_small_blocks; else fail group.cap_too_small_blocks "$(jp ar/drive-cap-x '{.status.phase}/{.status.reason}') $(jp ag/drive-cap '{.status.blockedReasons}')"; fi
  run patch ag/drive-cap --patch '{"spec":{"maxCostUSD":"0.60"}}'; run wait ar/drive-cap-x "--for=jsonpath={.status.phase}=Succeeded" --timeout="$W"; judge group.cap_raised_releases 0 'condition met'; q delete ag/drive-cap; fi
if want group.cancel; then q create agentgroup drive-cancel --agent parallel-agents-worker --max-active 1
  q create -f <(printf 'apiVersion: nodus.dev/v1\nkind: AgentRun\nmetadata: {name: drive-cancel-a}\nspec: {agent: parallel-agents-worker, group: drive-cancel, taskKey: a, keepAlive: true, input: hi}\n---\napiVersion: nodus.dev/v1\nkind: AgentRun\nmetadata: {name: drive-cancel-b}\nspec: {agent: parallel-agents-worker, group: drive-cancel, taskKey: b, dependsOn: [a], input: hi}\n')
  if until_jp ar/drive-cancel-b '{.status.phase}/{.status.reason}' '^Queued/DependencyWait$' 40; then pass group.dependency_wait; else fail group.dependency_wait "$(jp ar/drive-cancel-b '{.status.phase}/{.status.reason}')"; fi
  run cancel ag/drive-cancel; judge group.cancel 0 'canceled'
  run wait ag/drive-cancel "--for=jsonpath={.status.phase}=Cancelled" --timeout="$W"; judge group.cancelled 0 'condition met'
  run get ar --field-selector spec.group=drive-cancel -o 'jsonpath={.status.phase} '; judge group.members_cancelled 0 '^Cancelled Cancelled'
  q delete ag/drive-cancel; fi

# ---------------------------------------------------------------- watch output
if want watch.get_w; then ( timeout 25 "$N" get ar -w > w.out 2>&1 ) & WP=$!; sleep 2; q create agentrun "w-$SUF" --agent hello-agent --prompt "Say hi"; for i in $(seq 40); do grep -q "w-$SUF" w.out && break; sleep 0.5; done; kill $WP 2>/dev/null; wait $WP 2>/dev/null; OUT=$(cat w.out); RC=0; judge watch.get_w 0 "w-$SUF +hello-agent"; fi
if want watch.events_w; then ( timeout 25 "$N" events -w > we.out 2>&1 ) & WP=$!; sleep 2; q create agentrun "we-$SUF" --agent hello-agent --prompt "Say hi"; for i in $(seq 40); do grep -q "we-$SUF" we.out && break; sleep 0.5; done; kill $WP 2>/dev/null; wait $WP 2>/dev/null; OUT=$(cat we.out); RC=0; judge watch.events_w 0 "agentrun/we-$SUF"; fi
if want watch.events_w_prints_history; then OUT=$(timeout 6 "$N" events --for agent/hello-agent -w 2>&1); RC=0; judge watch.events_w_prints_history 0 'agent/hello-agent'; fi
if want watch.get_w_no_duplicates; then OUT=$(timeout 5 "$N" get agents -w 2>&1 | grep -c '^hello-agent '); RC=0; judge watch.get_w_no_duplicates 0 '^1$'; fi
if want watch.wait_delete; then q create agentrun "wd-$SUF" --agent hello-agent --prompt "Say hi"; ( sleep 2; q delete "ar/wd-$SUF" ) & run wait "ar/wd-$SUF" --for=delete --timeout=60s; judge watch.wait_delete 0 -; wait; fi
q delete "ar/w-$SUF"; q delete "ar/we-$SUF"

# ---------------------------------------------------------------- further fields
t guide2.agent_applies 0 'agent/hello-agent-002 (created|configured|unchanged)' apply -f agent002.yaml
t guide2.run_model_override 0 'created' apply -f run002.yaml
q wait "ar/run002-$SUF" "--for=jsonpath={.status.phase}=Succeeded" --timeout="$W"
t guide2.run_succeeded 0 '^Succeeded' get "ar/run002-$SUF" -o 'jsonpath={.status.phase}'
q delete "ar/run002-$SUF"

# ---------------------------------------------------------------- secrets and budgets
t secret.create 0 'secret/anthropic-key created' secret create anthropic-key --from-literal ANTHROPIC_API_KEY=sk-drive-value
t secret.create_again_conflicts 1 'AlreadyExists' secret create anthropic-key --from-literal ANTHROPIC_API_KEY=sk-drive-other
if want secret.write_only; then run get secret anthropic-key -o yaml; if [[ $OUT == *sk-drive* ]] || [[ $OUT == *$(printf 'sk-drive-value' | base64)* ]]; then fail secret.write_only "the value came back"; else judge secret.write_only 0 'ANTHROPIC_API_KEY'; fi; fi
t secret.byok_agent 0 'created' apply -f byok.yaml
t secret.apply 0 'created' apply -f secret.yaml
if want secret.last_applied_hides_values; then run get secret drive-applied -o json; if [[ $OUT == *s3cr3t-value* ]]; then fail secret.last_applied_hides_values "nodus.dev/last-applied holds the plain value"; else judge secret.last_applied_hides_values 0 'drive-applied'; fi; fi
t secret.apply_again 0 '(configured|unchanged)' apply -f secret.yaml
t secret.table 0 'anthropic-key' get secrets
t budget.create 0 'created' create budget drive-research --limit 20 --period Monthly --scope-project "$P"
t budget.apply 0 'created' apply -f budget.yaml
t budget.get 0 'drive-showcase' get budgets
tj budget.status "d['spec']['limitUSD'] and 'spentUSD' in d['status'] and 'remainingUSD' in d['status']" get budget/drive-showcase -o json
t budget.describe 0 'Kind: +Budget' describe budget/drive-showcase
for x in secret/anthropic-key secret/drive-applied budget/drive-showcase budget/drive-research agent/byok-agent; do q delete "$x"; done

# ---------------------------------------------------------------- sandboxes
t sandbox.create 0 'sandbox/drive-sb created' create sandbox drive-sb --cpu 1 --memory 1Gi --idle-timeout 10m
t sandbox.exec_waits_for_start 0 'hi-there' exec sb/drive-sb -- echo hi-there
t sandbox.exit_code 3 'err' exec sb/drive-sb -- sh -c 'echo err >&2; exit 3'
t sandbox.exec_missing_command '!0' - exec sb/drive-sb -- no-such-command-xyz
if want sandbox.stdin; then OUT=$(printf 'hello stdin\n' | timeout 60 "$N" exec -i sb/drive-sb -- cat 2>&1); RC=$?; judge sandbox.stdin 0 '^hello stdin'; fi
if want sandbox.big_output; then OUT=$(timeout 120 "$N" exec sb/drive-sb -- sh -c 'head -c 3000000 /dev/zero | tr "\0" x' </dev/null 2>/dev/null | wc -c); RC=0; judge sandbox.big_output 0 '^3000000$'; fi
if want sandbox.big_stdin; then OUT=$(head -c 2000000 /dev/zero | timeout 120 "$N" exec -i sb/drive-sb -- wc -c 2>&1); RC=$?; judge sandbox.big_stdin 0 '2000000'; fi
echo one > one.txt; mkdir -p dir/sub; echo f1 > dir/f1; echo f2 > dir/sub/f2; head -c 3000000 /dev/urandom > big.bin
t sandbox.cp_up 0 '1 files' cp one.txt sb/drive-sb:/workspace/one.txt
t sandbox.cp_up_visible 0 '^one' exec sb/drive-sb -- cat /workspace/one.txt
t sandbox.cp_down 0 '1 files' cp sb/drive-sb:/workspace/one.txt ./one.back
if want sandbox.cp_down_same; then cmp -s one.txt one.back && pass sandbox.cp_down_same || fail sandbox.cp_down_same differs; fi
t sandbox.cp_dir_up 0 '2 files' cp dir sb/drive-sb:/workspace/dir
t sandbox.cp_dir_down 0 '2 files' cp sb/drive-sb:/workspace/dir ./dir.back
if want sandbox.cp_dir_same; then diff -r dir dir.back >/dev/null && pass sandbox.cp_dir_same || fail sandbox.cp_dir_same differs; fi
if want sandbox.cp_big; then q cp big.bin sb/drive-sb:/workspace/big.bin; q cp sb/drive-sb:/workspace/big.bin ./big.back; cmp -s big.bin big.back && pass sandbox.cp_big || fail sandbox.cp_big differs; fi
t sandbox.cp_missing 1 'NotFound' cp sb/drive-sb:/workspace/nope ./nope
t sandbox.processes 0 'sb-drive-sb-1' get processes
t sandbox.attach_by_number '*' 'hi-there' attach sb/drive-sb --process 1
if want sandbox.cancel_process; then ( timeout 60 "$N" exec sb/drive-sb -- sleep 50 >/dev/null 2>&1; echo $? > cp.rc ) & sleep 2; PN=$(timeout 30 "$N" get processes -o json 2>/dev/null | $PY -c 'import json,sys
for i in json.load(sys.stdin)["items"]:
    if i["spec"]["command"][:1]==["sleep"] and i["status"]["phase"]=="Running": print(i["metadata"]["name"])' 2>/dev/null | tail -1); run cancel "process/$PN"; wait; if [ $RC -eq 0 ] && [ -n "$PN" ] && [ "$(cat cp.rc)" != 0 ]; then pass sandbox.cancel_process; else fail sandbox.cancel_process "process '$PN' rc $RC exec rc $(cat cp.rc)"; fi; fi
t sandbox.logs 0 - logs sb/drive-sb
t sandbox.logs_process 0 - logs sb/drive-sb --process 1 --tail 10
cat > drive_pty.py <<'E'
import pty,os,sys,time,select,struct,fcntl,termios
sends=sys.argv[1].encode().decode('unicode_escape').split('\n'); cmd=sys.argv[2:]
pid,fd=pty.fork()
if pid==0: os.execvp(cmd[0],cmd)
fcntl.ioctl(fd,termios.TIOCSWINSZ,struct.pack('HHHH',30,100,0,0))
out=b''; t=time.time()+3; end=time.time()+90
while time.time()<end:
    r,_,_=select.select([fd],[],[],0.1)
    if r:
        try: b=os.read(fd,65536)
        except OSError: b=b''
        if not b: break
        out+=b; t=max(t,time.time()+0.5)
    if sends and time.time()>t: os.write(fd,(sends.pop(0)+'\r').encode()); t=time.time()+1
else: os.kill(pid,9)
_,st=os.waitpid(pid,0); sys.stdout.write(out.decode('utf8','replace')); sys.exit(os.waitstatus_to_exitcode(st))
E
if want sandbox.tty; then OUT=$($PY drive_pty.py 'stty size\necho $((6*7))\nexit 5' "$N" exec -it sb/drive-sb -- sh 2>&1); RC=$?; judge sandbox.tty 5 '30 100.*42'; fi
if want sandbox.shell_creates; then OUT=$($PY drive_pty.py 'pwd\nexit' "$N" shell sandbox/drive-shell --cpu 1 2>&1); RC=$?; judge sandbox.shell_creates 0 'sandbox/drive-shell created.*workspace'; q delete sb/drive-shell; fi
if want sandbox.portforward; then
  cat > srv.py <<'E'
import http.server,sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(s): b=b'pf-ok '*1000; s.send_response(200); s.send_header('Content-Length',str(len(b))); s.end_headers(); s.wfile.write(b)
    def log_message(s,*a): pass
http.server.HTTPServer(('127.0.0.1',int(sys.argv[1])),H).serve_forever()
E
  q cp srv.py sb/drive-sb:/workspace/srv.py; RP=$((20000 + RANDOM % 20000)); LP=$((RP+1))
  ( timeout 40 "$N" exec sb/drive-sb -- python3 srv.py $RP >/dev/null 2>&1 ) & EP=$!; sleep 3
  ( timeout 30 "$N" port-forward sb/drive-sb $LP:$RP > pf.out 2>&1 ) & PP=$!; sleep 3
  A=$(curl -s --max-time 10 "http://127.0.0.1:$LP/" | wc -c); B=$(curl -s --max-time 10 "http://127.0.0.1:$LP/" | head -c 5)
  OUT="bytes=$A head=$B $(cat pf.out)"; RC=0; judge sandbox.portforward 0 'bytes=6000 head=pf-ok'; kill $PP $EP 2>/dev/null; wait $PP $EP 2>/dev/null; fi
t sandbox.open_port 0 'https?://' open sb/drive-sb --port 8000 --print
t sandbox.stop 0 'stopped' stop sb/drive-sb
if want sandbox.stopped_phase; then until_jp sb/drive-sb '{.status.phase}' '^Stopped$' 80 && pass sandbox.stopped_phase || fail sandbox.stopped_phase "$(jp sb/drive-sb '{.status.phase}')"; fi
t sandbox.exec_wakes_and_keeps_workspace 0 'one' exec sb/drive-sb -- cat /workspace/one.txt
t sandbox.request_refresh 0 'requested' request refresh-secrets sb/drive-sb
t sandbox.describe 0 'Kind: +Sandbox' describe sb/drive-sb
t sandbox.delete 0 'deleted' delete sb/drive-sb --wait

# ---------------------------------------------------------------- MCP over stdio
if want mcp; then
  cat > mcp.py <<'E'
import subprocess,json,sys
N,project,run=sys.argv[1:4]
p=subprocess.Popen([N,'mcp'],stdin=subprocess.PIPE,stdout=subprocess.PIPE,stderr=subprocess.DEVNULL,text=True)
i=0
def rpc(m,params=None):
    global i; i+=1
    p.stdin.write(json.dumps({"jsonrpc":"2.0","id":i,"method":m,"params":params or {}})+"\n"); p.stdin.flush()
    while True:
        r=json.loads(p.stdout.readline())
        if r.get("id")==i: return r
rpc("initialize",{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"drive","version":"0"}})
p.stdin.write(json.dumps({"jsonrpc":"2.0","method":"notifications/initialized"})+"\n"); p.stdin.flush()
tools={t["name"] for t in rpc("tools/list")["result"]["tools"]}
def case(n,ok,why=""): print(("PASS " if ok else "FAIL ")+"mcp."+n+("" if ok else ": "+str(why)[:160]))
def call(n,**a):
    r=rpc("tools/call",{"name":n,"arguments":a})
    if "error" in r: return False,r["error"]["message"]
    return not r["result"].get("isError"),r["result"]["content"][0]["text"]
case("read_tools",{"api_resources","describe","events","explain","get","whoami"}<=tools,tools)
case("write_tools",{"apply","delete","set_state","record","team","wait","estimate","logs"}<=tools,{"apply","delete","set_state","record","team","wait","estimate","logs"}-tools)
case("sandbox_tools",{"exec","files","cp","request"}<=tools,{"exec","files","cp","request"}-tools)
for n,a,need in (("whoami",{},"scopes"),("api_resources",{},"agentruns"),("get",{"kind":"AgentRun","name":run,"project":project},"status"),("team",{"kind":"AgentRun","name":run,"project":project},"summary"),("describe",{"kind":"AgentRun","name":run,"project":project},"events"),("events",{"kind":"AgentRun","name":run,"project":project},"items"),("explain",{"kind":"AgentRun"},"schema"),("wait",{"kind":"AgentRun","name":run,"project":project,"for":"phase=Succeeded","timeoutSeconds":5},"Succeeded")):
    ok,t=call(n,**a); case("call_"+n,ok and need in t,t)
man={"apiVersion":"nodus.dev/v1","kind":"AgentRun","metadata":{"name":"mcp-drive-"+sys.argv[4],"namespace":project},"spec":{"agent":"hello-agent","input":"Say hi"}}
ok,t=call("apply",manifest=man); d=json.loads(t) if ok else {}
case("apply_dry_run_etag",ok and d.get("dryRun") and d.get("etag"),t)
ok2,t2=call("apply",manifest=man,confirmed=True,etag='"not-the-etag"'); case("apply_stale_etag_refused",not ok2,t2)
if ok: ok,t=call("apply",manifest=man,confirmed=True,etag=d.get("etag")); case("apply_confirmed",ok and "metadata" in t,t)
ok,t=call("set_state",kind="AgentRun",name="mcp-drive-"+sys.argv[4],project=project,state="Cancelled"); case("set_state",ok,t)
ok,t=call("delete",kind="AgentRun",name="mcp-drive-"+sys.argv[4],project=project); case("delete",ok,t)
ok,t=call("record",kind="AgentRun",name=run,project=project,subresource="messages",body={"payload":"x"}); case("record_finished_refused",not ok and "AgentRunFinished" in t,t)
p.stdin.close(); p.wait(10)
E
  OUT=$(timeout 120 $PY mcp.py "$N" "$P" hello-agent-run "$SUF" 2>&1); printf '%s\n' "$OUT" | grep -E '^(PASS|FAIL) '; FAILS=$((FAILS + $(printf '%s\n' "$OUT" | grep -c '^FAIL '))); PASSES=$((PASSES + $(printf '%s\n' "$OUT" | grep -c '^PASS ')))
  printf '%s' "$OUT" | grep -q '^PASS' || fail mcp.starts "$(printf '%s' "$OUT" | tail -1)"
fi

# ---------------------------------------------------------------- login
if want login.with_token; then ( export HOME=$TMP/h1; mkdir -p $HOME; unset NODUS_API_URL NODUS_API_KEY NODUS_PROJECT; printf '%s' "$KEY" | timeout 40 "$N" login --with-token --api-url "$BASE"; echo "rc=$?"; timeout 20 "$N" whoami; timeout 20 "$N" config get-contexts ) > l1.out 2>&1; OUT=$(cat l1.out); RC=0; judge login.with_token 0 'Logged in to org.*rc=0.*Principal:'; fi
if want login.bad_token; then ( export HOME=$TMP/h2; mkdir -p $HOME; unset NODUS_API_URL NODUS_API_KEY NODUS_PROJECT; printf 'nodus_wrong_key' | timeout 40 "$N" login --with-token --api-url "$BASE"; echo "rc=$?" ) > l2.out 2>&1; OUT=$(cat l2.out); RC=0; if [ "${DRIVE_NO_AUTH:-}" = 1 ]; then skip login.bad_token DRIVE_NO_AUTH; else judge login.bad_token 0 'Unauthorized'; fi; fi
if want login.browser; then if [ -n "${DRIVE_BROWSER_APPROVE:-}" ]; then ( export HOME=$TMP/h3 BROWSER=/bin/true; mkdir -p $HOME; unset NODUS_API_URL NODUS_API_KEY NODUS_PROJECT; timeout 60 "$N" login --api-url "$BASE" > $TMP/l3.out 2>&1 & LPID=$!; for i in $(seq 20); do U=$(grep -aoE 'https?://[^ ]+cli-auth[^ ]+' $TMP/l3.out | head -1); [ -n "$U" ] && break; sleep 0.5; done; URL=$U BASE=$BASE bash -c "$DRIVE_BROWSER_APPROVE"; wait $LPID; echo "rc=$?" >> $TMP/l3.out; timeout 20 "$N" whoami >> $TMP/l3.out 2>&1 ); OUT=$(cat l3.out); RC=0; judge login.browser 0 'Logged in to org.*rc=0.*Principal:'; else skip login.browser "set DRIVE_BROWSER_APPROVE"; fi; fi
if want login.device; then if [ -n "${DRIVE_DEVICE_APPROVE:-}" ]; then ( export HOME=$TMP/h4; mkdir -p $HOME; unset NODUS_API_URL NODUS_API_KEY NODUS_PROJECT; timeout 90 "$N" login --device --api-url "$BASE" > $TMP/l4.out 2>&1 & LPID=$!; for i in $(seq 20); do C=$(grep -aoE 'code [A-Z0-9-]{6,}' $TMP/l4.out | head -1 | cut -d' ' -f2); [ -n "$C" ] && break; sleep 0.5; done; USER_CODE=$C BASE=$BASE bash -c "$DRIVE_DEVICE_APPROVE"; wait $LPID; echo "rc=$?" >> $TMP/l4.out; timeout 20 "$N" whoami >> $TMP/l4.out 2>&1; timeout 20 "$N" logout >> $TMP/l4.out 2>&1 ); OUT=$(cat l4.out); RC=0; judge login.device 0 'Logged in to org.*rc=0.*Principal:.*Logged out'; else skip login.device "set DRIVE_DEVICE_APPROVE"; fi; fi

# ---------------------------------------------------------------- tidy up
for x in ar/hello-agent-run ar/drive-ca agent/hello-agent-002 agent/parallel-agents-worker agent/hello-agent; do q delete "$x" --ignore-not-found; done
echo "SUMMARY pass=$PASSES fail=$FAILS skip=$SKIPS base=$BASE cli=$("$N" version 2>/dev/null)"
exit $((FAILS > 100 ? 100 : FAILS))
