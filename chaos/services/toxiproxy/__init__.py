"""How are TCP connections to a service broken by a real proxy? Main type: `Network`. May import: chaos only."""
