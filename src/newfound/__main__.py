"""`python -m newfound`."""

from newfound.cli import main

main()
