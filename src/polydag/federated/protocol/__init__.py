"""Messages, phases and storage: the coordinator and the sites as pure state machines."""
