"""The rows of the jobs that certify sinks, their keys, and the inputs that sources read them from.

A key belongs to one split, so that the last row of a key does not depend on how the splits interleave; but in one job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

from sinkproof.reference_engine.dataflow.key_groups import key_group, owner_of_group
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Row
from sinkproof.workload.wall_clocks import DAY_BEFORE

SPLITS: Final = 2
SINKS: Final = 2
BATCHES_PER_CHECKPOINT: Final = 2
BATCH_ROWS: Final = 2
ROWS_PER_SPLIT: Final = 3 * BATCHES_PER_CHECKPOINT * BATCH_ROWS
KEYS_PER_SPLIT: Final = 5
RECENT_APART_MS: Final = (100 * 60 * 1000, 1000)
EVENTS_APART_MS: Final = 7 * 3600 * 1000  # of one split: a checkpoint's rows fall into several hours, and into two days
MANY_CHECKPOINTS: Final = 12  # each batch has one row
DOZENS_OF_CHECKPOINTS: Final = 60
FORGOTTEN_IN_DOZENS: Final = 50  # of them, while a zombie is suspended
HUNDREDS_OF_CHECKPOINTS: Final = 600  # the same, and some more while a zombie is replaced
LARGE_BATCH_ROWS: Final = 600  # each split has two such batches in each of three checkpoints
MANY_CHUNKS_BATCH_ROWS: Final = 12 * LARGE_BATCH_ROWS // 2  # the same: at least twelve chunks of up to 600 rows
LARGE_VALUE_CHARACTERS: Final = 3 << 20  # four such rows for each sink in each checkpoint
DAY_MS: Final = 86_400_000
FAR_LARGER_BATCH_ROWS: Final = 10_000  # the same: 20,000 rows for each sink in each checkpoint
FAR_LARGER_VALUE_BYTES: Final = 100
WIDE_VALUE_CHARACTERS: Final = 100
MANY_KEYS_BATCH_ROWS: Final = 400  # the second batch of a checkpoint repeats the keys of the first: 400 for each sink
LONG_PREFIX: Final = "long key " * 130  # 1,170 characters; columns of 255 and of 1,024 are common
TWELVE_SINKS: Final = 12  # numbers with one digit and with two
TWELVE_SPLITS: Final = 12
# A number made of split and offset, `split * 1_000_000 + offset`, is that of another row where offsets are so large.
BASES: Final = (1 << 24, 10**8, 10**4, 10**5, 10**6, 10**7, 10**9, 1 << 16, 1 << 20)


def _keys_of(split: int, sink: int, *, sinks: int, splits: int = SPLITS) -> list[str]:
    """Keys of this split that are sent to this sink; twenty candidates for each sink are enough for five."""
    every = [f"k{number}" for number in range(split, 20 * sinks * splits, splits)]
    return [key for key in every if owner_of_group(key_group(key), sinks) == sink][:KEYS_PER_SPLIT]


KEYS: Final = [[_keys_of(split, sink, sinks=SINKS) for sink in range(SINKS)] for split in range(SPLITS)]
KEYS_FOR_TWELVE: Final = [
    [_keys_of(split, sink, sinks=TWELVE_SINKS, splits=TWELVE_SPLITS) for sink in range(TWELVE_SINKS)]
    for split in range(TWELVE_SPLITS)
]


def _first_offsets() -> list[int]:
    """Splits 1 and 11 begin at 0, so that 1 and 10 are written like 11 and 0. Split 0 begins by the first base after
    split 1, each from 9 down to 2 by the next one after its successor.
    """
    later = list(accumulate(BASES[1:]))
    return [BASES[0], 0, *reversed(later), 0, 0]


FIRST_OFFSETS: Final = _first_offsets()
# Numbers of 32 bits, with a sign or without, end before one of them, and texts of 14 digits, as Lua writes numbers.
# What JavaScript keeps exactly ends after them, and so do 48 bits below the number of the split.
LARGE_OFFSETS: Final = (3_000_000_000, 1 << 47)
# Times of 32 bits begin in 1901, and end in 2038 or, without a sign, in 2106; many types of databases begin in 1970.
EARLIEST_MS: Final = -2_177_452_800_000 + 1  # in 1901; not a whole second
YEARS_APART_MS: Final = 20 * 365 * 86_400_000 - 1501


def make_row(split: int, offset: int) -> Row:
    """Keys repeat, and go to either sink in an uneven rhythm: one row here, three there."""
    sink = (0, 1, 1, 0, split)[offset % 5]
    return Row(split, offset, KEYS[split][sink][offset // 5 % 2], f"v{split}.{offset}", offset * EVENTS_APART_MS)


def make_sparse_row(split: int, offset: int) -> Row:
    """Rows of the second checkpoint go to sink 0 only, those of the third to sink 1 only."""
    checkpoint = offset // (BATCHES_PER_CHECKPOINT * BATCH_ROWS)
    sink = checkpoint - 1 if checkpoint in (1, 2) else offset % 2
    return Row(split, offset, KEYS[split][sink][offset % 3], f"v{split}.{offset}", offset * EVENTS_APART_MS)


def make_row_in_turn(split: int, offset: int) -> Row:
    """Each sink has rows in each checkpoint, also if a batch has one row."""
    return Row(split, offset, KEYS[split][offset % SINKS][offset % 3], f"v{split}.{offset}", offset * EVENTS_APART_MS)


def make_late_first_row(split: int, offset: int) -> Row:
    """No row of the first checkpoint goes to sink 0."""
    sink = 1 if offset < BATCHES_PER_CHECKPOINT * BATCH_ROWS else offset % 2
    return Row(split, offset, KEYS[split][sink][offset % 3], f"v{split}.{offset}", offset * EVENTS_APART_MS)


SHORT_TEXT: Final = 100  # characters that most columns for texts have room for
EDGE_CASE_VALUES: Final = (
    *("", " ", "a,b;c", "it's", 'say "so"', "two\nlines", "\r\n", "tab\tand\\backslash, C:\\new\\root\\table"),
    *("%s {0} $x", "null", "Grüße, 東京, \N{CRAB}", "x" * SHORT_TEXT),
    *("007", "1.50", "true", "NaN", " between blanks\t", "\r", "\N{BYTE ORDER MARK}marked"),
    *("e\N{COMBINING ACUTE ACCENT}", "one\N{LINE SEPARATOR}two\x0bthree\x85four", "<b>&amp;</b>", "a/../b"),
    *("9007199254740993", "-9223372036854775809", "-0", "-0.0", "1e400"),  # beyond doubles and 64 bits
    *("soh\x01stx\x02rs\x1eus\x1f", "\\N", "\\.", "NULL", "None", '"quoted"', "1e3", "2024-02-30", "\x7f\x1b[0m"),
    *("a=b&c=d%0A+%25\\u0041", "#no comment"),
    # What readers that look at texts take for times, numbers, truth, structures, nothing, or a reference.
    *("2024-05-06T07:08:09Z", "2024-05-06 07:08:09.120", "12:30:00", "2024-05-06", "0x1F", "1_000", "+5", "1,234.50"),
    *(".5", "5.", "1e-7", "Infinity", "-inf", "TRUE", "no", "~", "{}", "[]", '{"a": 1}', "[1, 2]", "N/A", "<NA>"),
    *("0", "0.0", "false", "off", "=1+1", "\N{NO-BREAK SPACE}", "NA", "-n", "@file"),
    *("undefined", "'", '"', "\\", "%", "${HOME}", "{{x}}", "\N{ZERO WIDTH SPACE}", "ﬁ, İ, ß"),
)
LONG_VALUES: Final = ("x" * 5000, "y東" * 35_000)  # columns hold 255 characters, 65,535 bytes
LONG_KEY: Final = 60  # characters; with a few more, most columns for keys have room for them
SIMILAR_KEYS: Final = (  # those of a line come in one checkpoint: what makes names of keys makes them alike there
    ("a b", "a_b", "a/b", "a-b"),
    ("ab", "AB", "a.b", "a.b "),
    ("\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}"),
    ("x" * LONG_KEY + "a", "x" * LONG_KEY + "b"),
    ("東京", "大阪"),  # not in latin-1
    ("\N{CRAB}", "\N{SNAIL}"),  # four bytes in UTF-8, two units in UTF-16
    ("a\x01b", "a\x02b", "a\x1eb", "a\x1fb"),  # what separates fields elsewhere
    ('{"a": "b, c"}', "a[1]*?:b|c;d\te\\!(@)^`~+$%&<>#'=", "a,b\nc", "%61%2Fb"),
    ("plumless", "buckeroo"),  # of equal CRC-32, whatever precedes both
    ("aca", "bab"),  # of equal Adler-32, likewise
    ("Aa", "BB"),  # of equal `hashCode` of Java, likewise
)
# Files of a folder, hidden files, the same number, nothing, what each object of JavaScript has; equal in 40 bits of
# MD5, SHA-1, SHA-256: as many for each split.
KEYS_AS_THEY_ARE: Final = (
    ("", ".", ".a", "007", "7", "7.0", "0", "NA", "k67201", "k93321"),
    ("__proto__", "..", "1e3", "1000", "NaN", "constructor", "k743767", "k779473", "k809937", "k1077278"),
)
# Seconds: of an hour that Berlin (and London), New York, Los Angeles, Sydney have twice, the first and the second time;
# of one that Berlin leaves out; of a leap day.
EDGE_CASE_TIMES: Final = (
    *(1_729_989_000, 1_729_992_600, 1_730_611_800, 1_730_615_400, 1_711_848_600, 1_709_208_000),
    *(1_730_622_600, 1_730_626_200, 1_712_417_400, 1_712_421_000),
)
EDGE_CASE_TIME_EVERY: Final = 4  # pairs
EDGE_CASE_BATCH_ROWS: Final = 8  # of eight keys, two of each in a checkpoint
OUT_OF_ORDER: Final = 7  # places between the event times of two pairs
EDGE_CASE_PAIRS: Final = sum(map(len, SIMILAR_KEYS)) + len(KEYS_AS_THEY_ARE[0])  # of each split


def _similar_keys(texts: tuple[str, ...], split: int) -> list[str]:
    """Keys of this split that differ as these texts do, and go to one sink."""
    numbered = ([f"{number}{text}" for text in texts] for number in range(split, 80, SPLITS))
    return next(keys for keys in numbered if len({owner_of_group(key_group(key), SINKS) for key in keys}) == 1)


EDGE_CASE_KEYS: Final = [
    [*(key for texts in SIMILAR_KEYS for key in _similar_keys(texts, split)), *KEYS_AS_THEY_ARE[split]]
    for split in range(SPLITS)
]


def make_edge_case_row(split: int, offset: int) -> Row:
    """Pairs of rows differ in nothing but their offsets: what happens twice is two events, and has two identities.
    Their event times are out of order, also across checkpoints; those of one key are equal. Some are in hours that a
    local time does not tell apart.
    """
    pair = offset // 2
    value = EDGE_CASE_VALUES[(pair + split * EDGE_CASE_PAIRS) % len(EDGE_CASE_VALUES)]
    place, has_none = divmod(pair, EDGE_CASE_TIME_EVERY)
    local = 1000 * EDGE_CASE_TIMES[place % len(EDGE_CASE_TIMES)]
    time = (pair * OUT_OF_ORDER % EDGE_CASE_PAIRS * EVENTS_APART_MS if has_none else local) + 123 + split
    return Row(split, offset, EDGE_CASE_KEYS[split][pair], value, time)


def make_equal_row(split: int, offset: int) -> Row:
    """What one checkpoint of a sink holds equals what the next one holds, but for offsets."""
    return Row(split, offset, KEYS[split][offset % SINKS][0], "v", EVENTS_APART_MS)


def make_row_with_shared_key(split: int, offset: int) -> Row:
    """Two rows have all in common but their splits. All keys are digits, which readers may take for numbers."""
    row = make_row(0, offset)
    return row._replace(split=split, key=f"00{row.key[1:]}")


def make_row_of_far_larger_data(split: int, offset: int) -> Row:
    """Thousands of rows have one event time, as where it is a date."""
    row = make_row(split, offset)
    time = offset // FAR_LARGER_BATCH_ROWS * DAY_MS
    return row._replace(value=row.value.ljust(FAR_LARGER_VALUE_BYTES, "."), event_time_ms=time)


def make_wide_row(split: int, offset: int) -> Row:
    """With thousands of them, buffers of a megabyte are full: of a driver that cuts statements, or of a server."""
    row = make_row(split, offset)
    return row._replace(value=row.value.ljust(WIDE_VALUE_CHARACTERS, "."))


def make_row_of_large_value(split: int, offset: int) -> Row:
    row = make_row(split, offset)
    return row._replace(value=row.value.ljust(LARGE_VALUE_CHARACTERS, "."))


def make_row_of_many_keys(split: int, offset: int) -> Row:
    checkpoint, at = divmod(offset, BATCHES_PER_CHECKPOINT * MANY_KEYS_BATCH_ROWS)
    return make_row(split, offset)._replace(key=f"k{split}.{checkpoint}.{at % MANY_KEYS_BATCH_ROWS}")


def make_row_of_long_key(split: int, offset: int) -> Row:
    row = make_row(split, offset)
    return row._replace(key=LONG_PREFIX + row.key)


def make_row_of_long_value(split: int, offset: int) -> Row:
    row = make_row(split, offset)
    return row._replace(value=row.value + LONG_VALUES[offset % 2] if offset % 5 > 1 else row.value)


def make_row_with_null_characters(split: int, offset: int) -> Row:
    """At the end of a value, where fixed widths are padded with them, and in the middle, where texts of C end; where
    such a row is refused, the one before it for the same sink was not.
    """
    row = make_row(split, offset)
    return row._replace(value={2: f"v\0{row.value}", 3: f"{row.value}\0"}.get(offset % 5, row.value))


def make_row_of_large_offset(split: int, offset: int) -> Row:
    row = make_row(split, offset - LARGE_OFFSETS[split])
    return row._replace(offset=offset, value=f"v{split}.{offset}")


def make_row_of_far_time(split: int, offset: int) -> Row:
    return make_row(split, offset)._replace(event_time_ms=EARLIEST_MS + offset * YEARS_APART_MS)


def make_recent_row(split: int, offset: int) -> Row:
    """Its event time is some hours before the wall clock of an outage begins, or seconds in the second split."""
    ago_ms = (ROWS_PER_SPLIT - offset) * RECENT_APART_MS[split]
    return make_row(split, offset)._replace(event_time_ms=int(1000 * DAY_BEFORE.start) - ago_ms)


def make_row_of_null_key(split: int, offset: int) -> Row:
    """Every third key is NULL, as records of Kafka may lack one: in DataFrames only."""
    key: Any = None if offset % 3 == 1 else make_row(split, offset).key
    return make_row(split, offset)._replace(key=key)


def make_row_for_twelve_sinks(split: int, offset: int) -> Row:
    """Two batches of a source, which are a checkpoint, have a row for each of the sinks."""
    at = offset + split // SPLITS % BATCHES_PER_CHECKPOINT * (TWELVE_SINKS // BATCHES_PER_CHECKPOINT)
    return Row(split, offset, KEYS_FOR_TWELVE[split][at % TWELVE_SINKS][0], f"v{split}.{offset}", at * EVENTS_APART_MS)


def make_row_of_twelve_splits(split: int, offset: int) -> Row:
    row = make_row_for_twelve_sinks(split, offset - FIRST_OFFSETS[split])
    return row._replace(offset=offset, value=f"v{split}.{offset}")


class UnevenInput(GeneratedInput):
    """The second split ends within the second checkpoint."""

    def length(self, split: int) -> int:
        return self.rows_per_split if split == 0 else BATCHES_PER_CHECKPOINT * BATCH_ROWS + 1


class LateBeginnings(GeneratedInput):
    """Splits of which the first rows were dropped long ago."""

    def __init__(self, make: Callable[[int, int], Row], firsts: Sequence[int], **sizes: int) -> None:
        super().__init__(make, splits=len(firsts), **sizes)
        self.firsts = firsts

    def first(self, split: int) -> int:
        return self.firsts[split]

    def length(self, split: int) -> int:
        return self.first(split) + self.rows_per_split


def _input(
    make: Callable[[int, int], Row], *, rows: int = ROWS_PER_SPLIT, batch_rows: int = BATCH_ROWS
) -> GeneratedInput:
    return GeneratedInput(make, splits=SPLITS, rows_per_split=rows, batch_rows=batch_rows)


STANDARD_INPUT: Final = _input(make_row)
SPARSE_INPUT: Final = _input(make_sparse_row)
LATE_FIRST_ROWS_INPUT: Final = _input(make_late_first_row)
REBATCHED_INPUT: Final = _input(make_row, batch_rows=BATCH_ROWS + 1)
UNEVEN_INPUT: Final = UnevenInput(make_row, splits=SPLITS, rows_per_split=ROWS_PER_SPLIT, batch_rows=BATCH_ROWS)
EDGE_CASE_INPUT: Final = _input(make_edge_case_row, rows=2 * EDGE_CASE_PAIRS, batch_rows=EDGE_CASE_BATCH_ROWS)
EQUAL_ROWS_INPUT: Final = _input(make_equal_row)
SHARED_KEYS_INPUT: Final = _input(make_row_with_shared_key)
MANY_CHECKPOINTS_INPUT: Final = _input(make_row, rows=MANY_CHECKPOINTS * BATCHES_PER_CHECKPOINT, batch_rows=1)
IN_TURN_INPUT: Final = _input(make_row_in_turn, rows=MANY_CHECKPOINTS * BATCHES_PER_CHECKPOINT, batch_rows=1)
DOZENS_OF_CHECKPOINTS_INPUT: Final = _input(
    make_row, rows=(DOZENS_OF_CHECKPOINTS + 2) * BATCHES_PER_CHECKPOINT, batch_rows=1
)
HUNDREDS_OF_CHECKPOINTS_INPUT: Final = _input(
    make_row, rows=(HUNDREDS_OF_CHECKPOINTS + 20) * BATCHES_PER_CHECKPOINT, batch_rows=1
)
LARGE_BATCHES_INPUT: Final = _input(make_row, rows=6 * LARGE_BATCH_ROWS, batch_rows=LARGE_BATCH_ROWS)
MANY_CHUNKS_INPUT: Final = _input(make_row, rows=6 * MANY_CHUNKS_BATCH_ROWS, batch_rows=MANY_CHUNKS_BATCH_ROWS)
FAR_LARGER_INPUT: Final = _input(
    make_row_of_far_larger_data, rows=6 * FAR_LARGER_BATCH_ROWS, batch_rows=FAR_LARGER_BATCH_ROWS
)
ONE_LARGE_INPUT: Final = _input(
    make_wide_row, rows=BATCHES_PER_CHECKPOINT * FAR_LARGER_BATCH_ROWS, batch_rows=FAR_LARGER_BATCH_ROWS
)
LARGE_VALUES_INPUT: Final = _input(make_row_of_large_value)
MANY_KEYS_INPUT: Final = _input(make_row_of_many_keys, rows=6 * MANY_KEYS_BATCH_ROWS, batch_rows=MANY_KEYS_BATCH_ROWS)
LONG_KEYS_INPUT: Final = _input(make_row_of_long_key)
LONG_VALUES_INPUT: Final = _input(make_row_of_long_value)
NULL_CHARACTERS_INPUT: Final = _input(make_row_with_null_characters)
RECENT_INPUT: Final = _input(make_recent_row)
NULL_KEYS_INPUT: Final = _input(make_row_of_null_key)
FAR_TIMES_INPUT: Final = _input(make_row_of_far_time)
TWELVE_SINKS_INPUT: Final = _input(
    make_row_for_twelve_sinks, rows=3 * TWELVE_SINKS, batch_rows=TWELVE_SINKS // BATCHES_PER_CHECKPOINT
)
TWELVE_OF_BOTH_INPUT: Final = LateBeginnings(
    make_row_of_twelve_splits,
    FIRST_OFFSETS,
    rows_per_split=2 * TWELVE_SINKS,
    batch_rows=TWELVE_SINKS // BATCHES_PER_CHECKPOINT,
)
LARGE_OFFSETS_INPUT: Final = LateBeginnings(
    make_row_of_large_offset, LARGE_OFFSETS, rows_per_split=ROWS_PER_SPLIT, batch_rows=BATCH_ROWS
)
