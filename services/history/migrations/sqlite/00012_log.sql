-- +goose Up
-- The layout of the hash and the leaf of an event; 0 in releases before layouts were numbered.
ALTER TABLE verification_events ADD COLUMN form INTEGER NOT NULL DEFAULT 0;

-- The tree over all events, as tiles of C2SP tlog-tiles: up to 256 hashes of 32 bytes. The last tile of each level grows.
CREATE TABLE log_tiles (
    level  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    hashes BLOB    NOT NULL,
    PRIMARY KEY (level, number)
) STRICT;

-- The signed checkpoints of the log. The signed text decides.
CREATE TABLE log_checkpoints (
    origin  TEXT    NOT NULL,
    size    INTEGER NOT NULL, -- events
    made_at INTEGER NOT NULL,
    note    TEXT    NOT NULL,
    PRIMARY KEY (origin, size)
) STRICT;
CREATE INDEX log_checkpoints_size ON log_checkpoints (size DESC);

-- The replies of witnesses to checkpoints: a signature, or the reason why the witness rejected the checkpoint.
CREATE TABLE log_replies (
    origin    TEXT    NOT NULL,
    size      INTEGER NOT NULL,
    witness   TEXT    NOT NULL,
    signature TEXT    NOT NULL, -- base64; empty if the witness rejected it
    rejection   TEXT    NOT NULL,
    made_at   INTEGER NOT NULL,
    PRIMARY KEY (origin, size, witness),
    FOREIGN KEY (origin, size) REFERENCES log_checkpoints
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER log_tiles_update BEFORE UPDATE ON log_tiles
WHEN NEW.level <> OLD.level OR NEW.number <> OLD.number OR substr(NEW.hashes, 1, length(OLD.hashes)) <> OLD.hashes
BEGIN
    SELECT RAISE(ABORT, 'table log_tiles: a tile only grows: UPDATE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_tiles_delete BEFORE DELETE ON log_tiles
BEGIN
    SELECT RAISE(ABORT, 'table log_tiles: a tile only grows: DELETE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_checkpoints_update BEFORE UPDATE ON log_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'table log_checkpoints is append-only: UPDATE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_checkpoints_delete BEFORE DELETE ON log_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'table log_checkpoints is append-only: DELETE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_replies_update BEFORE UPDATE ON log_replies
BEGIN
    SELECT RAISE(ABORT, 'table log_replies is append-only: UPDATE refused');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER log_replies_delete BEFORE DELETE ON log_replies
BEGIN
    SELECT RAISE(ABORT, 'table log_replies is append-only: DELETE refused');
END;
-- +goose StatementEnd
-- INSERT OR REPLACE removes the row in its way, and does not call the triggers above unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER log_checkpoints_replace BEFORE INSERT ON log_checkpoints
WHEN EXISTS (SELECT 1 FROM log_checkpoints WHERE origin = NEW.origin AND size = NEW.size)
BEGIN
    SELECT RAISE(ABORT, 'table log_checkpoints is append-only: REPLACE refused');
END;
-- +goose StatementEnd
