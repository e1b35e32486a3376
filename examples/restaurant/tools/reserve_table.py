"""A reservation, which is kept in a memory block of the agent."""


def reserve_table(name: str, guests: int, hour: int, agent_state) -> str:
    """Reserve a table for this evening.

    Args:
        name: On whose name.
        guests: How many people.
        hour: When they come, from 17 to 22.
    """
    if not 17 <= hour <= 22:
        raise ValueError("the restaurant is open from 17 to 22")
    booked = agent_state.memory.get_block("reservations").value
    if f"{hour}:00 " in booked:
        raise ValueError(f"the only table is taken at {hour}:00; ask for another hour")
    agent_state.memory.update_block_value("reservations", f"{booked}\n{hour}:00 {name}, {guests} guests".strip())
    return f"a table for {guests} at {hour}:00"
