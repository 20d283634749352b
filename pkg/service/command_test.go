package service_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

type settings struct {
	Word string `env:"OPPORTUNITY_WORD,required,notEmpty" doc:"A word."`
}

func TestServiceHasItsOwnVerbs(t *testing.T) {
	var ran []string
	record := func(name string) func(context.Context, settings, []string) error {
		return func(_ context.Context, s settings, args []string) error {
			ran = append(ran, strings.Join(append([]string{name, s.Word}, args...), " "))
			return nil
		}
	}
	withDatabase := service.Definition[settings]{Name: "test", Migrations: fstest.MapFS{}}
	verbs := map[string]service.Verb[settings]{
		"show":  {Usage: "[--at DATE] ID", Help: "Show one.", Run: record("show")},
		"count": {Run: record("count")},
	}
	main := func(args ...string) error {
		return withDatabase.Main(t.Context(), func(string) (string, bool) { return "yes", true }, args, verbs)
	}
	require.NoError(t, main("show", "--at", "2026-11-20", "maple"))
	require.NoError(t, main("count"))
	require.Equal(t, []string{"show yes --at 2026-11-20 maple", "count yes"}, ran)

	const usage = "usage: test check [--settings] | count | migrate | ready | serve | show [--at DATE] ID"
	for _, wrong := range [][]string{nil, {"dance"}, {"serve", "now"}, {"migrate", "now"}, {"ready", "now"},
		{"count", "more"}, {"serve", "--settings"}, {"--help", "more"}, {"--version", "more"}} {
		require.EqualError(t, main(wrong...), usage)
	}
	require.EqualError(t, main("check", "--all"), "usage: test check [--settings]")
	for line, want := range map[string]string{
		"--help": "test migrate", "-h": "test show [--at DATE] ID  Show one.",
		"show --help": "test show [--at DATE] ID  Show one.",
		"serve -h":    "test serve  Serve until SIGTERM", "--version": "test " + telemetry.ReadBuild().Version,
	} {
		require.Contains(t, printed(t, func() error { return main(strings.Fields(line)...) }), want, line)
	}
	require.Len(t, ran, 2)
	unset := func(string) (string, bool) { return "", false }
	require.ErrorContains(t, withDatabase.Main(t.Context(), unset, []string{"count"}, verbs), "OPPORTUNITY_WORD")
	require.ErrorContains(t, withDatabase.Main(t.Context(), unset, []string{"serve"}, verbs), "OPPORTUNITY_WORD")

	withoutDatabase := service.Definition[settings]{Name: "test"}
	require.EqualError(t, withoutDatabase.Main(t.Context(), unset, []string{"migrate"}, nil),
		"usage: test check [--settings] | ready | serve")
}

// printed returns what do writes to standard output.
func printed(t *testing.T, do func() error) string {
	t.Helper()
	file := storetest.Must(os.CreateTemp(t.TempDir(), ""))(t)
	defer file.Close()
	out := os.Stdout
	os.Stdout = file
	err := do()
	os.Stdout = out
	require.NoError(t, err)
	return string(storetest.Must(os.ReadFile(file.Name()))(t))
}

func TestReadyNeedsOnlyTheOperationsPort(t *testing.T) {
	status := http.StatusServiceUnavailable
	operations := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/readyz", r.URL.Path)
		w.WriteHeader(status)
	}))
	defer operations.Close()
	_, port, err := net.SplitHostPort(operations.Listener.Addr().String())
	require.NoError(t, err)
	for _, address := range []string{":" + port, "0.0.0.0:" + port, "127.0.0.1:" + port} {
		ready := func() error {
			return service.Definition[settings]{Name: "test"}.Main(t.Context(), func(name string) (string, bool) {
				return address, name == "OPPORTUNITY_OPERATIONS_LISTEN"
			}, []string{"ready"}, nil)
		}
		status = http.StatusServiceUnavailable
		require.ErrorContains(t, ready(), "is not ready: status 503", address)
		status = http.StatusOK
		require.NoError(t, ready(), address)
	}
}

func TestSettingsAreCheckedWithoutStores(t *testing.T) {
	check := func(changes map[string]string) error {
		set := map[string]string{"OPPORTUNITY_DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "OPPORTUNITY_LISTEN": ":0"}
		maps.Copy(set, changes)
		return service.Definition[withStore]{
			Name: "test", Migrations: fstest.MapFS{},
			Base: func(s withStore) service.Base {
				return service.Base{Database: s.Database, Server: s.Server, TLS: s.TLS}
			},
			Check: func(context.Context, *service.Runtime, withStore) error { return errors.New("a peer was needed") },
		}.Main(t.Context(), func(name string) (string, bool) { v, ok := set[name]; return v, ok },
			[]string{"check", "--settings"}, nil)
	}
	require.NoError(t, check(nil))
	missing := filepath.Join(t.TempDir(), "tls.crt")
	for setting, wrong := range map[string]string{
		"OPPORTUNITY_LISTEN": "127.0.0.1:99999", "OPPORTUNITY_OPERATIONS_LISTEN": "9090",
		"OPPORTUNITY_DATABASE_URL":  "mysql://x",
		"OPPORTUNITY_TLS_CERT_FILE": missing,
	} {
		require.ErrorContains(t, check(map[string]string{setting: wrong, "OPPORTUNITY_TLS_KEY_FILE": ""}), setting)
	}
	require.ErrorContains(t,
		check(map[string]string{"OPPORTUNITY_TLS_CERT_FILE": missing, "OPPORTUNITY_TLS_KEY_FILE": missing}), missing)
}

// withStore has the settings of a service with a database.
type withStore struct {
	Database database.Config
	Server   server.Config
	TLS      certificate.ServerConfig
}

func (s withStore) Validate() error { return errors.Join(s.Database.Validate(), s.TLS.Validate()) }

func TestRecoverNeedsOneDecision(t *testing.T) {
	var got service.Recovery
	verb := service.RecoverVerb("history", nil, func(_ context.Context, _ struct{}, decision service.Recovery,
		_ io.Writer) error {
		got = decision
		return nil
	})
	require.NoError(t, verb.Run(t.Context(), struct{}{}, []string{"--current", "--operator", "ann"}))
	require.Equal(t, service.Recovery{Current: true, Operator: "ann"}, got)
	require.NoError(t, verb.Run(t.Context(), struct{}{}, []string{"--accept", "--operator", "ann"}))
	require.Equal(t, service.Recovery{Operator: "ann"}, got)

	for args, want := range map[string]string{
		"":                       "no decision",
		"--accept":               "--operator is missing",
		"--operator ann":         "no decision",
		"--accept --current":     "no decision",
		"--current more":         `unexpected argument "more"`,
		"--accept --operator":    "flag needs an argument",
		"--no-such-flag ann bob": "not defined",
	} {
		err := verb.Run(t.Context(), struct{}{}, strings.Fields(args))
		require.ErrorContains(t, err, want, args)
		require.ErrorContains(t, err, "usage: history recover --accept|--current --operator NAME")
	}
}
