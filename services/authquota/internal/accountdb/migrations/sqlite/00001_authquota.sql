-- Times are microseconds since 1970 UTC.

-- +goose Up
CREATE TABLE accounts (
  id             text   PRIMARY KEY,
  tier           text   NOT NULL CHECK (tier <> ''),
  suspended_at   bigint,
  suspend_reason text   NOT NULL DEFAULT '',
  created_at     bigint NOT NULL,
  merged_into    text   REFERENCES accounts (id), -- the account that has taken over its keys; it never gets one again
  epoch          bigint NOT NULL DEFAULT 0 -- about the time of its latest change, in microseconds since 1970 UTC; it only grows
);

-- The digest is the hexadecimal HMAC-SHA-256 of the key under the pepper that was the newest when it was issued. The key itself
-- is not stored.
CREATE TABLE api_keys (
  id           text   PRIMARY KEY,
  account_id   text   NOT NULL REFERENCES accounts (id),
  digest       text   NOT NULL UNIQUE CHECK (length(digest) = 64),
  prefix       text   NOT NULL,
  last_four    text   NOT NULL CHECK (length(last_four) = 4),
  use_case     text   NOT NULL,
  created_at   bigint NOT NULL,
  expires_at   bigint NOT NULL CHECK (expires_at > created_at),
  revoked_at   bigint,
  name         text   NOT NULL DEFAULT '',
  replaced_at  bigint, -- when it got its successor; expires_at is the end of its grace then
  successor_id text   REFERENCES api_keys (id),
  last_used_at bigint,
  sequence     bigint, -- the order in which keys became visible, which gateways follow to learn all digests; the trigger sets it
  life         bigint CHECK (life > 0) -- if an operator chose less than the longest life, so that a successor gets the same
);
CREATE INDEX api_keys_by_account ON api_keys (account_id);
CREATE INDEX api_keys_by_end ON api_keys (expires_at);
CREATE UNIQUE INDEX api_keys_by_sequence ON api_keys (sequence);

-- The last sequence given.
CREATE TABLE key_sequence (
  id    bigint PRIMARY KEY CHECK (id = 1),
  value bigint NOT NULL
);
INSERT INTO key_sequence VALUES (1, 0);

-- +goose StatementBegin
CREATE TRIGGER api_keys_set_sequence AFTER INSERT ON api_keys BEGIN
  UPDATE key_sequence SET value = value + 1;
  UPDATE api_keys SET sequence = (SELECT value FROM key_sequence) WHERE id = NEW.id;
END;
-- +goose StatementEnd

-- test: requests for test keys, which are approved automatically.
CREATE TABLE key_requests (
  id         text    PRIMARY KEY,
  account_id text    NOT NULL REFERENCES accounts (id),
  name       text    NOT NULL,
  use_case   text    NOT NULL,
  state      text    NOT NULL CHECK (state IN ('asked', 'approved', 'declined', 'collected', 'withdrawn')),
  reason     text    NOT NULL DEFAULT '',
  asked_at   bigint  NOT NULL,
  decided_at bigint,
  decided_by text    NOT NULL DEFAULT '',
  key_id     text    UNIQUE REFERENCES api_keys (id), -- once it was collected
  test       boolean NOT NULL DEFAULT false
);
CREATE INDEX key_requests_by_account ON key_requests (account_id);
CREATE INDEX key_requests_by_state ON key_requests (state);
-- An account has at most one open request for a test key.
CREATE UNIQUE INDEX key_requests_test ON key_requests (account_id) WHERE test AND state IN ('asked', 'approved');

-- The ledger. Account '*' is the total of all accounts, counted separately.
CREATE TABLE usage_days (
  day        text   NOT NULL,
  account_id text   NOT NULL,
  calls      bigint NOT NULL CHECK (calls >= 0),
  PRIMARY KEY (day, account_id)
);

-- Calls of a day that count for another account since a merge. A row stays after the counter store was updated: the ledger's counts
-- of the other account include them, so a day that the counter store has lost is restored without those of the merged account.
CREATE TABLE usage_moves (
  day          text   NOT NULL,
  from_account text   NOT NULL REFERENCES accounts (id),
  to_account   text   NOT NULL REFERENCES accounts (id),
  moved_at     bigint, -- when the counter store was updated
  PRIMARY KEY (day, from_account)
);

-- How the calls of each key ended, by UTC day: statistics for the key's holder. They lie together by account, which is how they are
-- read, and follow their key when accounts are merged. No reference to accounts: checking it would wait for a merge that waits for
-- the key.
CREATE TABLE usage_keys (
  account_id text   NOT NULL,
  day        text   NOT NULL,
  key_id     text   NOT NULL REFERENCES api_keys (id),
  outcome    text   NOT NULL,
  calls      bigint NOT NULL CHECK (calls > 0),
  PRIMARY KEY (account_id, day, key_id, outcome)
) WITHOUT ROWID;
CREATE INDEX usage_keys_by_day ON usage_keys (day);

-- The sums of usage_keys by account, written together with it: an account may have had thousands of keys.
CREATE TABLE usage_outcomes (
  account_id text   NOT NULL,
  day        text   NOT NULL,
  outcome    text   NOT NULL,
  calls      bigint NOT NULL CHECK (calls > 0),
  PRIMARY KEY (account_id, day, outcome)
) WITHOUT ROWID;
CREATE INDEX usage_outcomes_by_day ON usage_outcomes (day);

-- The batches that were counted lately, so that one that is sent twice counts once.
CREATE TABLE usage_batches (
  id         text   PRIMARY KEY,
  counted_at bigint NOT NULL
);
CREATE INDEX usage_batches_by_time ON usage_batches (counted_at);

-- The latest requests of each key, for its holder: a row has those of one second that came in one batch. They follow their key when accounts
-- are merged. No reference to keys: a batch may name keys that this database does not have, and no row lives longer than a week.
CREATE TABLE request_log_seconds (
  key_id   TEXT    NOT NULL,
  second   INTEGER NOT NULL, -- since 1970
  batch    TEXT    NOT NULL, -- id of its first request, so that a batch that is sent again adds nothing
  calls    INTEGER NOT NULL,
  requests BLOB    NOT NULL, -- JSON array, as gzip or plain
  PRIMARY KEY (key_id, second, batch)
) STRICT, WITHOUT ROWID;

-- What accounts have paid for, as billing reported last, beside the tier that they were granted.
CREATE TABLE entitlements (
  account_id  text    PRIMARY KEY REFERENCES accounts (id),
  holder_id   text    NOT NULL REFERENCES accounts (id), -- whose tier it counts for: the account, or the one that has taken it over
  tier        text    NOT NULL CHECK (tier <> ''),
  paid_until  bigint,                                    -- the first time that is not paid for
  renews      boolean NOT NULL CHECK (renews IN (0, 1)),
  trouble     text    NOT NULL CHECK (trouble IN ('', 'payment-failed', 'refunded', 'disputed')),
  version     bigint  NOT NULL CHECK (version >= 1),
  told_on     boolean NOT NULL CHECK (told_on IN (0, 1)), -- a mail said that the plan is on, and none yet that it has ended
  -- The version after which billing got the request to cancel, because the account is closed. Where it is behind the version of a
  -- closed account's entitlement, the request is pending.
  cancel_told bigint  NOT NULL DEFAULT 0,
  CHECK ((tier = 'free') = (paid_until IS NULL))
);
CREATE INDEX entitlements_by_holder ON entitlements (holder_id);
CREATE INDEX entitlements_by_end ON entitlements (paid_until) WHERE told_on;

-- The people who sign in to accounts. Accounts that operators made have no row here. Seeds are sealed with a key that is not in the
-- database. totp_last_step is the last time step whose code was used, so that none works twice.
CREATE TABLE people (
  account_id        text   PRIMARY KEY REFERENCES accounts (id),
  email             text   NOT NULL UNIQUE CHECK (email <> ''),
  password_hash     text   NOT NULL,
  totp_seed         text   NOT NULL DEFAULT '',
  totp_confirmed_at bigint,
  totp_last_step    bigint NOT NULL DEFAULT 0,
  reset_at          bigint,
  closed_at         bigint,
  created_at        bigint NOT NULL
);

CREATE TABLE recovery_codes (
  account_id text   NOT NULL REFERENCES people (account_id),
  hash       text   NOT NULL,
  used_at    bigint,
  PRIMARY KEY (account_id, hash)
);

-- Which versions of the terms of use an account accepted, and when. The rows stay when the account is closed.
CREATE TABLE terms_acceptances (
  account_id  text   NOT NULL REFERENCES people (account_id),
  version     text   NOT NULL CHECK (version <> ''),
  accepted_at bigint NOT NULL,
  PRIMARY KEY (account_id, version)
);

-- Browsers. Only the hash of the secret in the cookie is here, and for some seconds that of the one before.
-- new_seed is the sealed seed of an authenticator that this browser sets up, until its first code.
CREATE TABLE sessions (
  id               text   PRIMARY KEY,
  token_hash       text   NOT NULL UNIQUE CHECK (length(token_hash) = 64),
  prev_hash        text,
  account_id       text   NOT NULL REFERENCES people (account_id),
  stage            text   NOT NULL CHECK (stage IN ('password', 'full')),
  created_at       bigint NOT NULL,
  seen_at          bigint NOT NULL,
  authenticated_at bigint NOT NULL,
  expires_at       bigint NOT NULL,
  agent            text   NOT NULL,
  network          text   NOT NULL,
  new_seed         text   NOT NULL DEFAULT '',
  new_seed_at      bigint,
  ended_at         bigint
);
CREATE INDEX sessions_by_prev ON sessions (prev_hash) WHERE prev_hash IS NOT NULL;
CREATE INDEX sessions_by_account ON sessions (account_id);
CREATE INDEX sessions_by_end ON sessions (expires_at);

-- Browsers that have signed in before: a sign-in from another is reported by mail.
CREATE TABLE devices (
  account_id text   NOT NULL REFERENCES people (account_id),
  token_hash text   NOT NULL CHECK (length(token_hash) = 64),
  seen_at    bigint NOT NULL,
  PRIMARY KEY (account_id, token_hash)
);

-- Links that were sent by mail and work once. One with the purpose 'none' never works: it is written so that an address that has an
-- account takes as long as one that has none.
CREATE TABLE links (
  token_hash text   PRIMARY KEY CHECK (length(token_hash) = 64),
  purpose    text   NOT NULL,
  account_id text,
  email      text   NOT NULL,
  expires_at bigint NOT NULL,
  used_at    bigint
);
CREATE INDEX links_by_account ON links (account_id);
CREATE INDEX links_by_end ON links (expires_at);

-- Failures, which slow down guessing. A subject is a keyed hash, whether or not its account exists.
CREATE TABLE attempts (
  subject  text   PRIMARY KEY,
  failures bigint NOT NULL,
  last_at  bigint NOT NULL
);
CREATE INDEX attempts_by_time ON attempts (last_at);

-- Passkeys and security keys. The record has the public key and what the library stores beside it; nothing in it is secret.
CREATE TABLE passkeys (
  id         text   PRIMARY KEY,
  account_id text   NOT NULL REFERENCES people (account_id),
  name       text   NOT NULL,
  credential text   NOT NULL UNIQUE CHECK (credential <> ''),
  record     text   NOT NULL,
  count      bigint NOT NULL,
  added_at   bigint NOT NULL,
  used_at    bigint
);
CREATE INDEX passkeys_by_account ON passkeys (account_id);

-- The latest challenge of a browser, for each session and purpose. A row is deleted as it is used, whatever the result.
CREATE TABLE passkey_challenges (
  session_id text   NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  purpose    text   NOT NULL CHECK (purpose IN ('add', 'prove')),
  kept       text   NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (session_id, purpose)
);

-- Mails that are still to be sent, posted in the transaction of their subject. The letter, its address and its links are sealed; the
-- row goes when the letter is sent or given up. Recipient and topic are keyed hashes; the turns of one recipient lie apart, so that its
-- mails do not delay those of others.
CREATE TABLE mails (
  id         text   PRIMARY KEY,
  template   text   NOT NULL,
  letter     text   NOT NULL,
  created_at bigint NOT NULL,
  due_at     bigint NOT NULL,
  attempts   bigint NOT NULL DEFAULT 0,
  recipient  text   NOT NULL,
  topic      text   NOT NULL,
  urgent     boolean NOT NULL CHECK (urgent IN (0, 1)),
  turn       bigint NOT NULL
);
CREATE INDEX mails_by_turn ON mails (urgent DESC, turn, id);
CREATE INDEX mails_by_recipient ON mails (recipient, turn);

-- Which notices people want by mail, and which were sent: each at most once for an event, such as a day.
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

-- Mails from operators to every person. last_account is the account of the last mail that was posted: the mails are posted in the order
-- of the accounts, so that none is posted twice.
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

-- Changes of accounts, to notice that the database was restored.
CREATE TABLE change_sequence (
  id    integer PRIMARY KEY CHECK (id = 1),
  value bigint  NOT NULL
);
INSERT INTO change_sequence VALUES (1, 0);

-- One row for each change of accounts, in the order of commits. After a restore sequences are used again; ids are not.
CREATE TABLE changes (
  sequence bigint PRIMARY KEY,
  id       text   NOT NULL,
  accounts text   NOT NULL -- comma-separated ids
);

-- Periods of this database between decisions of an operator after it was set back. Those that were given up began at 0.
CREATE TABLE generations (
  id       text   PRIMARY KEY,
  began_at bigint NOT NULL, -- microseconds since 1970 UTC
  begun_by text   NOT NULL,
  alive_at bigint NOT NULL DEFAULT 0 -- a process was running then
);
INSERT INTO generations (id, began_at, begun_by) VALUES (lower(hex(randomblob(8))), 1, '');

-- Marks that others remember and this database lacks. While there are any, it is set back.
CREATE TABLE claims (
  mark text PRIMARY KEY
);

-- No foreign keys: an entry outlives its subject.
CREATE TABLE audit_log (
  id      integer PRIMARY KEY AUTOINCREMENT,
  at      bigint NOT NULL,
  actor   text   NOT NULL,
  action  text   NOT NULL,
  subject text   NOT NULL,
  detail  text   NOT NULL
);
CREATE INDEX audit_log_by_subject ON audit_log (subject, id);
CREATE INDEX audit_log_by_actor ON audit_log (actor, id);

-- +goose StatementBegin
CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd
-- INSERT OR REPLACE removes the row in its way, and does not call the trigger above unless the connection has recursive_triggers.
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_replace BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- +goose StatementEnd
