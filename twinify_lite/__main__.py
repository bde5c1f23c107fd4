"""`python -m twinify_lite` is `twin`."""

from twinify_lite.cli import main

if __name__ == "__main__":
    main(prog_name="twin")
