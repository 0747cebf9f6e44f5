"""The Project API: `server` for templates of projects, `client` for who drives them."""
