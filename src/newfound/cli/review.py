"""The verb that serves a page on which classes can be edited."""

from typing import Annotated

import typer

from newfound.cli.options import MovedDataDir, RunFolder
from newfound.cli.output import output
from newfound.experiment.reopen import pile_of
from newfound.report.live import Live
from newfound.report.serving import Server
from newfound.review.review import Review


def review(
    run: RunFolder,
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to serve; 0 takes one that is free.")
    ] = 0,
    data_dir: MovedDataDir = None,
) -> None:
    """Name, merge, split and sort classes on a page in your browser, with every image to look at."""
    folder = Review.open(run).folder
    folder.source().check_loadable()
    print("reading the images and drawing their map")
    server = Server(Live(folder, pile_of(folder, data_dir, output().print), data_dir), port)
    print(f"open {server.address}")
    print("what you do there is kept at once; Ctrl-C here ends the page")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print(f"\nended; newfound classes {folder.quoted} lists what you left")
    finally:
        server.server_close()
