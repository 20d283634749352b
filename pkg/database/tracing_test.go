package database

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

type thing struct{ ID string }

func TestStatementsOfRequestsHaveSpans(t *testing.T) {
	storetest.OnBothDatabases(t, func(t *testing.T, address string) {
		tel := storetest.Must(telemetry.Start(t.Context(), "test", telemetry.Config{}))(t)
		db := storetest.Must(Open(Config{URL: address, MaxConnections: 1}, tel))(t)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		u := storetest.Must(url.Parse(address))(t)
		spans := tracetest.NewSpanRecorder()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
		require.NoError(t, observe(db.DB, "tracing", newTracing(tracer, db.Dialect, u).before, after))

		require.NoError(t, db.WithContext(t.Context()).Exec("CREATE TABLE things (id text PRIMARY KEY)").Error)
		require.Empty(t, spans.Ended(), "statements of background loops have no spans")
		ctx, request := tracer.Start(t.Context(), "request")
		tx := db.WithContext(ctx)
		require.NoError(t, tx.Create(&thing{"secret"}).Error)
		require.ErrorContains(t, tx.Take(&thing{}, "id = ?", "another secret").Error, "not found")
		require.Error(t, tx.Raw("SELECT secret FROM things WHERE id = 'secret'").Scan(new(string)).Error)
		require.NoError(t, tx.Exec("SELECT 1").Error)
		request.End()

		var names []string
		for _, span := range spans.Ended()[:4] {
			got := map[attribute.Key]string{}
			for _, a := range span.Attributes() {
				require.NotContains(t, a.Value.String(), "secret")
				got[a.Key] = a.Value.String()
			}
			require.Equal(t, request.SpanContext().SpanID(), span.Parent().SpanID())
			require.Equal(t, strings.TrimSpace(got["db.operation.name"]+" "+got["db.collection.name"]), span.Name())
			require.Equal(t, map[string]string{Postgres: "postgresql", SQLite: "sqlite"}[db.Dialect], got["db.system.name"])
			require.Equal(t, db.Dialect == Postgres, got["server.address"] == "127.0.0.1" && got["server.port"] == u.Port())
			require.Equal(t, db.Dialect == Postgres, "/"+got["db.namespace"] == u.Path)
			require.Equal(t, span.Status().Code == codes.Error, got["error.type"] != "")
			if db.Dialect == Postgres && got["error.type"] != "" {
				require.Equal(t, "42703", got["error.type"], "undefined column")
			}
			names = append(names, span.Name()+" "+span.Status().Code.String())
		}
		require.Equal(t, []string{"INSERT things Unset", "SELECT things Unset", "SELECT things Error", "SELECT Unset"}, names)
	})
}

func TestOperationAndTableOfStatement(t *testing.T) {
	for statement, want := range map[string]string{
		`INSERT INTO "things" ("id") VALUES ($1)`:                    "INSERT things",
		"INSERT INTO things (id) SELECT * FROM unnest(?::text[])":    "INSERT things",
		"SELECT count(*) FROM `things` WHERE id = ? FOR UPDATE":      "SELECT things",
		"select x from unnest(?::text[]) u JOIN LATERAL a.b ON true": "SELECT",
		"\n\tWITH old AS (SELECT id FROM a.things) DELETE FROM b":    "WITH a.things",
		"UPDATE change_sequence SET value = value + 1":               "UPDATE change_sequence",
		"PRAGMA journal_mode":                                        "PRAGMA",
		"":                                                           "",
	} {
		operation, table := describe(statement)
		require.Equal(t, want, strings.TrimSpace(operation+" "+table), statement)
	}
}
