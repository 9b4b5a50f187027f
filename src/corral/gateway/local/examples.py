"""What the small model is shown before the conversation: how to speak, and solved tasks to imitate.

A model of this size follows examples, not instructions, so the examples carry the shell idioms. They are static, so the
engine keeps them evaluated between calls. There are four, because ten solved no more tasks and took twice as long to
evaluate on a cold start. The one that recovers from an error comes first: the last one is imitated most.

A reply is either a fenced command or one line that starts with `Answer:`. There is no JSON for the model to escape:
small models break the quoting inside JSON strings. A GBNF grammar admits nothing else, so every reply can be parsed.
"""

from dataclasses import dataclass

SYSTEM = (
    "You are an agent with a Linux shell. Reply in one of two ways.\n"
    "To run a shell command:\n```bash\nCOMMAND\n```\n"
    "To finish, one line:\nAnswer: TEXT\n"
    "Rules: run a command before you answer. Never guess. If a command fails, fix it and run it again. "
    "Use python3 with print() for arithmetic. Answer in one short sentence with the value from the output."
)

FAILED = "(failed: fix the command and run it again)"
"""Ends the output of a failed command, only where the grammar then demands a command: a model may echo such a note."""
NO_OUTPUT = "(no output)"
SHOW = "(no output; use print or cat to show the result)"
"""In place of the output of a command that should have read something; under the same condition as FAILED."""

# Six lines of 200 characters, and an answer of 400: what a step of this model's size needs, and a bound on rambling.
_COMMAND = '''cmd ::= "```bash\\n" [^`\\n ] rest line{0,5} "```"
line ::= [^`\\n] rest
rest ::= [^`\\n]{0,199} "\\n"'''
# Without the pictographs from U+1F300 on: once it writes one, a small model does not stop writing them.
_ANSWER = 'ans ::= "Answer: " [^`\\n \\U0001F300-\\U0001FAFF] [^`\\n\\U0001F300-\\U0001FAFF]{0,399}'
COMMAND_ONLY = f"root ::= cmd\n{_COMMAND}"
ANSWER_ONLY = f"root ::= ans\n{_ANSWER}"
EITHER = f"root ::= cmd | ans\n{_COMMAND}\n{_ANSWER}"


@dataclass(frozen=True)
class Example:
    """A solved task: commands with their exit code and output, and the answer."""

    task: str
    steps: tuple[tuple[str, int, str], ...]
    answer: str


EXAMPLES = (
    Example(
        "List the functions in app.py.",
        (
            ("grep -n def app", 2, "grep: app: No such file or directory"),
            ("grep -n 'def ' app.py", 0, "3:def main():"),
        ),
        "app.py defines the function main.",
    ),
    Example(
        "How many files are in the photos folder?",
        (("find photos -maxdepth 1 -type f | wc -l", 0, "31"),),
        "There are 31 files in photos.",
    ),
    Example(
        "Change red to blue in style.css.",
        (("sed -i 's/red/blue/g' style.css && cat style.css", 0, "a { color: blue }"),),
        "I changed red to blue in style.css.",
    ),
    Example(
        "Compute 17 times 23 with Python and tell me the result.",
        (("python3 -c 'print(17 * 23)'", 0, "391"),),
        "17 times 23 is 391.",
    ),
)
