-- +goose Up
-- What another service has seen of this database and is missing from it. See SetBack in pkg/database.
CREATE TABLE set_backs (
    kind        text   NOT NULL,
    number      bigint NOT NULL,
    id          text   NOT NULL,
    note        text   NOT NULL,
    found_at    bigint NOT NULL,
    generation  bigint NOT NULL, -- 0 until an operator accepts the loss
    accepted_at bigint NOT NULL,
    accepted_by text   NOT NULL,
    PRIMARY KEY (kind, number, id)
);

-- The newest change of each copied feed that this service has seen.
CREATE TABLE feed_copies (
    feed         text    NOT NULL PRIMARY KEY,
    sequence     bigint  NOT NULL,
    mark         text    NOT NULL,
    started_over boolean NOT NULL
);
INSERT INTO feed_copies VALUES ('listings', 0, '', false);

-- +goose Down
DROP TABLE feed_copies;
DROP TABLE set_backs;
