-- +goose Up
-- Known facts of the latest review, and how many of them have a quote. They are filled when the summaries are read again.
ALTER TABLE listing_index ADD COLUMN facts integer NOT NULL DEFAULT 0;
ALTER TABLE listing_index ADD COLUMN quoted integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE listing_index DROP COLUMN facts;
ALTER TABLE listing_index DROP COLUMN quoted;
