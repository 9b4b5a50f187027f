"""Event: something that happened to an object, for people who ask why."""

from datetime import datetime
from typing import Literal

from ._meta import ObjectMeta
from ._resource import Column, Resource, Spec


class InvolvedObject(Spec):
    """The object that the event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class Event(Resource):
    """One line of an object's history."""

    plural, short = "events", ("ev",)
    scope = "Org"
    writable = False
    nested = False
    columns = (
        Column("Last Seen", "lastTime"),
        Column("Type", "type"),
        Column("Reason", "reason"),
        Column("Object", "involvedObject.name"),
        Column("Message", "message"),
    )

    metadata: ObjectMeta
    type: Literal["Normal", "Warning"] = "Normal"
    reason: str = ""
    message: str = ""
    last_time: datetime | None = None
    involved_object: InvolvedObject
