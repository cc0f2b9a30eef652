"""How a run decides what to try next: the protocol, the playbook, a scripted one."""
