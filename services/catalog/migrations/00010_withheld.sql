-- +goose Up
-- The listings that the history knew as not public when this database was found set back: a JSON array of ids. No row: not asked yet, or decided.
CREATE TABLE withheld (
    id       integer PRIMARY KEY CHECK (id = 1),
    listings text    NOT NULL
);

-- +goose Down
DROP TABLE withheld;
