package keys_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/authquotatest"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/journal"
	"opportunity.internal/services/authquota/internal/keys"
)

// fullDisk is a journal that cannot be written.
type fullDisk struct{}

func (fullDisk) Write(journal.Line) error { return errors.New("no space left on device") }

// A key is shown only once its change is in the journal. One that was saved and not shown is revoked, and its request or its
// predecessor is as before, so that the person can retry.
func TestKeyThatWasNotShownIsRevoked(t *testing.T) {
	db := authquotatest.OnSQLite(t)
	f := fixture{keys.NewStore(db.DB), db, t, new(int)}
	ctx, id := t.Context(), f.person("ada@example.org")
	older, _ := f.issue(keys.Order{Account: id}, keys.MaxLife)
	request, err := f.RequestKey(ctx, id, keys.RequestedKey{Name: "a", UseCase: "b"}, accepted, true)
	require.NoError(t, err)

	db.Journal = fullDisk{}
	_, err = f.Issue(ctx, "ann", keys.Order{Account: id, UseCase: "x"}, keys.MaxLife, stored(100))
	require.ErrorIs(t, err, dbtx.ErrNotJournaled)
	_, err = f.Collect(ctx, id, request.ID, accepted, stored(101))
	require.ErrorIs(t, err, dbtx.ErrNotJournaled)
	_, _, err = f.Rotate(ctx, id, older.ID, stored(102))
	require.ErrorIs(t, err, dbtx.ErrNotJournaled)

	own, err := f.OwnKeys(ctx, id)
	require.NoError(t, err)
	require.Len(t, own, 4)
	for _, k := range own {
		require.Equal(t, k.ID == older.ID, k.StatusAt(db.Now()) == keys.Active, k.ID)
	}
	after, err := f.OwnKey(ctx, id, older.ID)
	require.NoError(t, err)
	require.Equal(t, older.ExpiresAt, after.ExpiresAt)
	require.True(t, after.Counts(db.Now()))

	db.Journal = nil
	_, err = f.Collect(ctx, id, request.ID, accepted, stored(103))
	require.NoError(t, err)
	_, _, err = f.Rotate(ctx, id, older.ID, stored(104))
	require.NoError(t, err)
}

// An issue that was not saved leaves nothing to revoke.
func TestIssueWithoutADatabaseSavesNothing(t *testing.T) {
	db := authquotatest.OnSQLite(t)
	require.NoError(t, db.Close())
	_, err := keys.NewStore(db.DB).Issue(t.Context(), "ann", keys.Order{UseCase: "x", Tier: "free"}, time.Hour, stored(1))
	require.Error(t, err)
	require.NotErrorIs(t, err, dbtx.ErrNotJournaled)
}
