package database_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
)

// setReadOnly makes new sessions of a database read-only, as those of a standby are, or writable
// again.
func setReadOnly(t *testing.T, address string, value string) {
	t.Helper()
	u := storetest.Must(url.Parse(address))(t)
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	require.NoError(t, open(t,
		u.String()).WithContext(t.Context()).Exec("ALTER DATABASE "+name+" SET default_transaction_read_only = "+value).Error)
}

func TestReadOnlyConnectionLeavesThePool(t *testing.T) {
	address := storetest.Postgres(t)
	setReadOnly(t, address, "on")
	db := single(t, address).WithContext(t.Context())
	err := db.Exec("CREATE TABLE things (id text)").Error
	require.True(t, database.IsUnavailable(err), "%v", err)
	setReadOnly(t, address, "off")
	require.NoError(t, db.Exec("CREATE TABLE things (id text)").Error, "a new connection")
}

// Of several servers, connections go to the one that accepts writes, also if another one accepts
// connections and never replies. Each statement has too little time to wait for that one.
func TestConnectionsGoToTheServerThatAcceptsWrites(t *testing.T) {
	silent := storetest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	address := storetest.Postgres(t)
	u := storetest.Must(url.Parse(address))(t)
	u.Host = silent.Addr().String() + "," + u.Host
	migrate(t, database.Config{URL: address})

	db := single(t, u.String())
	write := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		return db.WithContext(ctx).Exec("UPDATE change_sequence SET value = value + 1").Error
	}
	storetest.Eventually(t, "a write", func() bool { return write() == nil })
	require.NoError(t, db.Current(t.Context(), migrations))

	setReadOnly(t, address, "on")
	db = single(t, u.String())
	err := write()
	require.True(t, database.IsUnavailable(err), "no server accepts writes: %v", err)
}
