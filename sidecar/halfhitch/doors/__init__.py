"""How the world comes in: `http` takes the data requests, `admin` shows how things stand."""
