-- +goose Up
-- The pages of listings come with the catalog's feed now: copy it again.
ALTER TABLE listings ADD COLUMN pages TEXT NOT NULL DEFAULT '[]'; -- JSON array of URLs
UPDATE listings SET sequence = 0;

-- The last attempt of the link checker to read each page that listings cite.
CREATE TABLE pages (
    url     TEXT    PRIMARY KEY,
    read_at INTEGER NOT NULL, -- of the last attempt
    outcome TEXT    NOT NULL, -- as of an application link
    note    TEXT    NOT NULL, -- why no text was read; empty if it was
    sha256  TEXT    NOT NULL, -- of the text that was read last, empty if none ever was
    text_at INTEGER NOT NULL  -- when it was read
) STRICT;

CREATE TABLE page_texts (
    sha256  TEXT    PRIMARY KEY, -- of the text
    content BLOB    NOT NULL,    -- the text, as gzip
    read_at INTEGER NOT NULL     -- when a page last had it
) STRICT;

-- The listings whose latest quotes are all present, or some missing. An append of a review deletes its mark.
CREATE TABLE quote_marks (
    slug TEXT PRIMARY KEY,
    mark TEXT NOT NULL CHECK (mark IN ('present', 'missing'))
) STRICT;

CREATE INDEX verification_events_reviews ON verification_events (slug, checked_at DESC, sequence DESC) WHERE check_type = 'review';

-- +goose Down
DROP INDEX verification_events_reviews;
DROP TABLE quote_marks;
DROP TABLE page_texts;
DROP TABLE pages;
ALTER TABLE listings DROP COLUMN pages;
