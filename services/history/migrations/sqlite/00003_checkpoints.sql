-- +goose Up
-- What the history signed of itself. The signed text decides; number, made_at and size repeat it to be searched by.
CREATE TABLE checkpoints (
    number      INTEGER PRIMARY KEY,
    day         TEXT    UNIQUE, -- the UTC day whose checkpoint it is; null for one that was asked for
    made_at     INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    note        TEXT    NOT NULL,
    consistency TEXT    NOT NULL, -- hashes in base64, separated by spaces
    frontier    TEXT    NOT NULL
) STRICT;
CREATE INDEX checkpoints_made_at ON checkpoints (made_at);

-- The chains that grew since the checkpoint before.
CREATE TABLE checkpoint_heads (
    checkpoint INTEGER NOT NULL REFERENCES checkpoints,
    chain      TEXT    NOT NULL, -- hash of its first event
    slug       TEXT    NOT NULL,
    events     INTEGER NOT NULL,
    hash       TEXT    NOT NULL,
    PRIMARY KEY (checkpoint, chain)
) STRICT;
CREATE INDEX checkpoint_heads_slug ON checkpoint_heads (slug, checkpoint DESC);

-- The hashes of the leaves that were signed, 32 bytes each: they tell which event was replaced where the tree tells only that
-- one was.
CREATE TABLE checkpoint_leaves (
    first  INTEGER PRIMARY KEY, -- sequence of the first
    hashes BLOB    NOT NULL
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER checkpoints_update BEFORE UPDATE ON checkpoints
BEGIN
    SELECT RAISE(ABORT, 'table checkpoints is append-only: UPDATE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER checkpoints_delete BEFORE DELETE ON checkpoints
BEGIN
    SELECT RAISE(ABORT, 'table checkpoints is append-only: DELETE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER checkpoint_heads_update BEFORE UPDATE ON checkpoint_heads
BEGIN
    SELECT RAISE(ABORT, 'table checkpoint_heads is append-only: UPDATE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER checkpoint_heads_delete BEFORE DELETE ON checkpoint_heads
BEGIN
    SELECT RAISE(ABORT, 'table checkpoint_heads is append-only: DELETE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER checkpoint_leaves_update BEFORE UPDATE ON checkpoint_leaves
BEGIN
    SELECT RAISE(ABORT, 'table checkpoint_leaves is append-only: UPDATE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER checkpoint_leaves_delete BEFORE DELETE ON checkpoint_leaves
BEGIN
    SELECT RAISE(ABORT, 'table checkpoint_leaves is append-only: DELETE refused');
END;
-- +goose StatementEnd
-- INSERT OR REPLACE removes the row in its way, without a word to the triggers above unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER checkpoints_replace BEFORE INSERT ON checkpoints
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE number = NEW.number OR day = NEW.day)
BEGIN
    SELECT RAISE(ABORT, 'table checkpoints is append-only: REPLACE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER checkpoint_heads_replace BEFORE INSERT ON checkpoint_heads
WHEN EXISTS (SELECT 1 FROM checkpoint_heads WHERE checkpoint = NEW.checkpoint AND chain = NEW.chain)
BEGIN
    SELECT RAISE(ABORT, 'table checkpoint_heads is append-only: REPLACE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER checkpoint_leaves_replace BEFORE INSERT ON checkpoint_leaves
WHEN EXISTS (SELECT 1 FROM checkpoint_leaves WHERE first = NEW.first)
BEGIN
    SELECT RAISE(ABORT, 'table checkpoint_leaves is append-only: REPLACE refused');
END;
-- +goose StatementEnd
