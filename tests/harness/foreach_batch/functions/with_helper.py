"""Its own lines do nothing: the module beside it writes."""

import json


def write(df, batch_id):
    from helper_writer import write_marked

    write_marked(df.collect(), batch_id)


def committed(scratch):
    for file in sorted(scratch.path.glob("out")):
        for text in file.read_text().splitlines():
            yield json.loads(text)
