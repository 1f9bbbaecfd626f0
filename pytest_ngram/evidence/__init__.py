"""What the gates judge: requests on fresh servers, run when a gate first asks, once per session."""
