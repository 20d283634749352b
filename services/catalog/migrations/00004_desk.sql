-- +goose Up
-- Columns by which curators find listings, derived from a listing and its summary. sequence is that of the listing when its row was derived;
-- a row with another one is outdated.
CREATE TABLE listing_index (
  listing_id         text   NOT NULL PRIMARY KEY REFERENCES listings (id),
  sequence           bigint NOT NULL,
  visibility         text   NOT NULL,
  category           text   NOT NULL,
  company            text   NOT NULL,
  name_key           text   NOT NULL, -- equal for companies that probably are the same
  host               text   NOT NULL, -- of the website, without www.
  words              text   NOT NULL, -- id and company in lower case
  countries          text   NOT NULL, -- countries with an eligible entry, as ,CA,US,
  sources            bigint NOT NULL,
  application_status text   NOT NULL,
  link_outcome       text   NOT NULL, -- of the latest link check; empty without one
  status             text   NOT NULL, -- unverified, needs-review, or verified, which turns stale after due_at
  due_at             bigint NOT NULL, -- earliest time of the reasons; 0 if unknown
  whys               text   NOT NULL, -- kinds of the reasons, as ,edit,link-check,
  reasons            text   NOT NULL, -- JSON
  last_checked_at    bigint
);
CREATE INDEX listing_index_due ON listing_index (visibility, due_at, listing_id);
CREATE INDEX listing_index_checked ON listing_index (visibility, last_checked_at);
CREATE INDEX listing_index_host ON listing_index (host);
CREATE INDEX listing_index_name ON listing_index (name_key);

-- Advisory: a review is protected by its precondition.
CREATE TABLE leases (
  listing_id text   NOT NULL PRIMARY KEY REFERENCES listings (id),
  holder     text   NOT NULL,
  taken_at   bigint NOT NULL,
  expires_at bigint NOT NULL
);
CREATE TABLE drafts (
  listing_id text   NOT NULL REFERENCES listings (id),
  operator   text   NOT NULL,
  content    text   NOT NULL,
  saved_at   bigint NOT NULL,
  PRIMARY KEY (listing_id, operator)
);
CREATE TABLE skips (
  listing_id text   NOT NULL PRIMARY KEY REFERENCES listings (id),
  actor      text   NOT NULL,
  reason     text   NOT NULL,
  skipped_at bigint NOT NULL,
  ends_at    bigint NOT NULL
);
CREATE TABLE quotes (
  listing_id text NOT NULL PRIMARY KEY REFERENCES listings (id),
  document   text NOT NULL -- JSON
);

-- One row for each UTC day, such as 2026-11-20, with the counts at its last update.
CREATE TABLE freshness_samples (
  day          text   NOT NULL PRIMARY KEY,
  verified     bigint NOT NULL,
  stale        bigint NOT NULL,
  needs_review bigint NOT NULL,
  unverified   bigint NOT NULL
);

ALTER TABLE listing_changes ADD COLUMN reason text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE listing_changes DROP COLUMN reason;
DROP TABLE freshness_samples;
DROP TABLE quotes;
DROP TABLE skips;
DROP TABLE drafts;
DROP TABLE leases;
DROP TABLE listing_index;
