-- +goose Up
-- Reviews that were drawn for the opinion of another curator, and the opinions.
CREATE TABLE second_opinions (
    event_id    text   NOT NULL PRIMARY KEY, -- the drawn review
    sequence    bigint NOT NULL,             -- of that review
    slug        text   NOT NULL,
    reviewer    text   NOT NULL,
    drawn_at    bigint NOT NULL,
    actor       text,                        -- null until an opinion is given
    given_at    bigint,
    review      text,                        -- as sent; JSON
    differs     text,                        -- JSON array of facts
    recorded_id text                         -- the event that the opinion was recorded as
);
CREATE INDEX second_opinions_open ON second_opinions (drawn_at) WHERE actor IS NULL;
CREATE INDEX second_opinions_recorded ON second_opinions (recorded_id);

-- +goose Down
DROP TABLE second_opinions;
