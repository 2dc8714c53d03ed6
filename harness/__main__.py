"""`python -m sinkproof`"""

from sinkproof.cli.main import main

main()
