-- +goose Up
-- The pages of listings come with the catalog's feed now: copy it again.
ALTER TABLE listings ADD COLUMN pages text NOT NULL DEFAULT '[]'; -- JSON array of URLs
UPDATE listings SET sequence = 0;

-- The last attempt of the link checker to read each page that listings cite.
CREATE TABLE pages (
    url     text   PRIMARY KEY,
    read_at bigint NOT NULL, -- of the last attempt
    outcome text   NOT NULL, -- as of an application link
    note    text   NOT NULL, -- why no text was read; empty if it was
    sha256  text   NOT NULL, -- of the text that was read last, empty if none ever was
    text_at bigint NOT NULL  -- when it was read
);

CREATE TABLE page_texts (
    sha256  text   PRIMARY KEY, -- of the text
    content bytea  NOT NULL,    -- the text, as gzip
    read_at bigint NOT NULL     -- when a page last had it
);
ALTER TABLE page_texts ALTER COLUMN content SET STORAGE EXTERNAL; -- it is compressed

-- The listings whose latest quotes are all present, or some missing. An append of a review deletes its mark.
CREATE TABLE quote_marks (
    slug text PRIMARY KEY,
    mark text NOT NULL CHECK (mark IN ('present', 'missing'))
);

CREATE INDEX verification_events_reviews ON verification_events (slug, checked_at DESC, sequence DESC) WHERE check_type = 'review';

-- +goose Down
DROP INDEX verification_events_reviews;
DROP TABLE quote_marks;
DROP TABLE page_texts;
DROP TABLE pages;
ALTER TABLE listings DROP COLUMN pages;
