"""The verbs of `newfound`, one function each."""

import typer

from newfound.cli import bench, compare, demo, estimate, look, reproduce, tables, train, use

app = typer.Typer(
    name="newfound",
    help="Find the classes nobody has named in a pile of unlabelled images.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(look.data)
app.command()(look.methods)
app.command(epilog=estimate.SETTINGS)(estimate.estimate)
app.command()(train.pretrain)
app.command()(train.discover)
app.command()(compare.compare)
app.command()(reproduce.reproduce)
app.command()(tables.tables)
app.command()(bench.bench)
app.command()(use.evaluate)
app.command()(use.figures)
app.command()(use.predict)
