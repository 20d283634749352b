-- +goose Up
-- The run of the link checker. Only who holds the lease may claim links; a run that died holds it until it expires.
CREATE TABLE link_run (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    run           TEXT    NOT NULL, -- the run that holds the lease, empty for none
    held_until    INTEGER NOT NULL,
    ended_at      INTEGER NOT NULL, -- of the last run that came to an end; 0 before any
    took          INTEGER NOT NULL, -- microseconds
    succeeded_at  INTEGER NOT NULL  -- when a run last came to the end of all that was due
) STRICT;
INSERT INTO link_run VALUES (1, '', 0, 0, 0, 0);

-- The last check of each listing's application link. A row is written before the link is asked, and names the instant of the
-- day at which the check fell due: nobody asks for the same instant again, whatever became of the run.
CREATE TABLE link_checks (
    slug        TEXT    PRIMARY KEY,
    due_at      INTEGER NOT NULL,
    run         TEXT    NOT NULL,
    claimed_at  INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL -- 0 until the event is appended, in the same transaction
) STRICT;

CREATE TABLE link_outcomes (
    outcome TEXT    PRIMARY KEY,
    checks  INTEGER NOT NULL
) STRICT;
INSERT INTO link_outcomes VALUES ('reachable', 0), ('blocked', 0), ('unreachable', 0), ('closed', 0), ('needs-review', 0);
