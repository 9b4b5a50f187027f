"""Ask the same agent many things at a time, in asyncio code, and print the answers as they come.

Start a server with `corral up`, then: python examples/sdk_many_inputs.py
"""

import asyncio

import corral

QUESTIONS = [f"What is {number} * {number}?" for number in range(5)]


async def main() -> None:
    agent = corral.Agent("many-inputs", system="Answer in one short sentence.", per_run_max_cost="0.10")
    async for answer in agent.map.aio(QUESTIONS, max_active=3, order_outputs=False, return_exceptions=True):
        print(answer)


if __name__ == "__main__":
    asyncio.run(main())
