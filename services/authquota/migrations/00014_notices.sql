-- Which notices people want by mail, and which were sent: each at most once for an event, such as a day.

-- +goose Up
CREATE TABLE notice_choices (
  account_id text    NOT NULL REFERENCES accounts (id),
  kind       text    NOT NULL,
  wanted     boolean NOT NULL,
  PRIMARY KEY (account_id, kind)
);

CREATE TABLE notice_events (
  account_id text   NOT NULL REFERENCES accounts (id),
  kind       text   NOT NULL,
  event      text   NOT NULL,
  sent_at    bigint NOT NULL,
  PRIMARY KEY (account_id, kind, event)
);
CREATE INDEX notice_events_by_time ON notice_events (sent_at);

-- +goose Down
DROP TABLE notice_events;
DROP TABLE notice_choices;
