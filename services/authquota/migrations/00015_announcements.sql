-- Mails from operators to every person. last_account is the account of the last mail that was posted: the mails are posted in the order
-- of the accounts, so that none is posted twice.

-- +goose Up
CREATE TABLE announcements (
  id           text   PRIMARY KEY,
  kind         text   NOT NULL,
  subject      text   NOT NULL,
  body         text   NOT NULL,
  created_at   bigint NOT NULL,
  finished_at  bigint,
  last_account text   NOT NULL DEFAULT '',
  posted       bigint NOT NULL DEFAULT 0
);

-- +goose Down
DROP TABLE announcements;
