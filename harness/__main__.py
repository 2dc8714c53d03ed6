"""`python -m sinkproof`"""

from sinkproof.cli import main

main()
