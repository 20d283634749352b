package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/pkg/api"
)

func gunzip(t testing.TB, packed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	plain, err := io.ReadAll(r)
	require.NoError(t, err)
	return plain
}

// generic returns a YAML or JSON document as canonical JSON.
func generic(t testing.TB, text []byte) string {
	t.Helper()
	var doc any
	require.NoError(t, yaml.Unmarshal(text, &doc))
	out, err := json.Marshal(doc)
	require.NoError(t, err)
	return string(out)
}

// shownInREADME compares the console block of the README with what the first start printed, apart
// from addresses, folder and secrets.
func shownInREADME(t *testing.T, u upProcess) {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(readme), "```console\n$ make run\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	eventually(t, "the first start has printed everything",
		func() bool { return strings.Contains(u.out.String(), "Ctrl-C") })
	secret := regexp.MustCompile(`oda_test_\w+|localhost:\d+/sign-in/once\?code=[\w-]+`)
	printed := strings.NewReplacer(u.url, "http://localhost:8080", u.adminURL, "http://127.0.0.1:8081", u.dir,
		"/home/you/opportunity/.opportunity").Replace(u.out.String())
	require.Equal(t, secret.ReplaceAllString(block, "SECRET"), secret.ReplaceAllString(printed, "SECRET"))
}

// TestQuickStart follows the README: start the API, run the printed curl command, and read every
// page, a record and its history.
func TestQuickStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	u := up(t, dir)
	shownInREADME(t, u)
	for _, tier := range api.Tiers {
		require.True(t, strings.HasPrefix(u.keys[tier.Tier], "oda_test_"), "%s", tier.Tier)
		require.Contains(t, u.out.String(), u.keys[tier.Tier])
	}

	line := curlLine(u.out.String())
	require.NotEmpty(t, line, u.out.String())
	printed, err := exec.CommandContext(t.Context(), "sh", "-c", line+" --silent --fail-with-body").Output()
	require.NoError(t, err, "%s: %s", line, printed)
	first, err := strict[api.OpportunityList](printed)
	require.NoError(t, err)
	require.NotEmpty(t, first.Data)

	key := u.keys[api.Developer]
	all := list(t, u.url, key, "/api/v1/opportunities?limit=50")
	require.Greater(t, len(all), 60)
	for _, o := range all {
		require.Contains(t, o.Company.Name, "(sample)")
		require.Contains(t, o.Company.Website, ".example/")
	}
	detail := decode[api.OpportunityDetail](t, do(t, u.url, call{path: "/api/v1/opportunities/" + all[0].ID, key: key}))
	require.Equal(t, all[0], detail.Data)
	events := decode[api.EventList](t,
		do(t, u.url, call{path: "/api/v1/opportunities/" + all[0].ID + "/history", key: key}))
	require.NotEmpty(t, events.Data)
	require.Len(t, ids(list(t, u.url, u.keys[api.Free], "/api/v1/opportunities")), 10)

	// only the owner can read secrets
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		if path == dir || !entry.IsDir() && !strings.Contains(path, ".db") {
			require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", path, info.Mode())
		}
		return nil
	}))
	token, err := os.ReadFile(filepath.Join(dir, "operator-token"))
	require.NoError(t, err)
	require.NotContains(t, u.out.String(), strings.TrimSpace(string(token)))
}

// TestRestart checks that data, keys, today's counters and the token survive a restart.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	u := up(t, dir)
	before := list(t, u.url, u.keys[api.Commercial], "/api/v1/opportunities?limit=100")
	own := u.issue(t, api.Developer)
	for range 7 {
		do(t, u.url, call{path: "/api/v1/opportunities", key: own.Key})
	}
	u.interrupt(t)
	require.Zero(t, u.wait(t), u.out.String())

	again := up(t, dir)
	require.Equal(t, u.keys, again.keys)
	require.Equal(t, before, list(t, again.url, again.keys[api.Commercial], "/api/v1/opportunities?limit=100"))
	require.Equal(t, 1000-8, do(t, again.url, call{path: "/api/v1/opportunities", key: own.Key}).remaining(t))
}

// TestKilledFirstStart checks that the next start completes a first start that was killed at any
// point.
func TestKilledFirstStart(t *testing.T) {
	t.Parallel()
	for _, until := range []string{"operator-token", "seed.json", "demo-keys.json"} {
		t.Run(until, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			cut := start(t, nil, program(t, "opportunity"), "up", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
				"--data-dir", dir)
			eventually(t, until+" is there", func() bool {
				_, err := os.Stat(filepath.Join(dir, until))
				return err == nil
			})
			require.NoError(t, cut.cmd.Process.Kill())
			cut.wait(t)

			u := up(t, dir)
			require.Len(t, u.keys, len(api.Tiers))
			all := list(t, u.url, u.keys[api.Commercial], "/api/v1/opportunities?limit=100")
			require.Greater(t, len(all), 60)
			for _, o := range all { // nothing was appended twice
				if o.ID == "maple-scribe" {
					require.Equal(t, 7, o.Verification.HistoryCount)
				}
			}
			active := 0
			for line := range strings.Lines(u.verb(t, "", "keys", "list")) {
				if strings.Contains(line, "oda_test_") && strings.Contains(line, "active") {
					active++
				}
			}
			require.Equal(t, len(api.Tiers), active)
		})
	}
}

// TestSeedNone checks that --seed none starts empty, and that a later --seed sample does not change
// that.
func TestSeedNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	u := upWith(t, dir, "none")
	require.Empty(t, list(t, u.url, u.keys[api.Commercial], "/api/v1/opportunities"))
	u.interrupt(t)
	require.Zero(t, u.wait(t))
	again := up(t, dir)
	require.Empty(t, list(t, again.url, again.keys[api.Commercial], "/api/v1/opportunities"))
}

// TestRefusedStarts checks that a start that fails prints the reason on one line and does not
// affect a running process.
func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	u := up(t, dir)
	other := filepath.Join(t.TempDir(), "other")
	public, admin := strings.TrimPrefix(u.url, "http://"), strings.TrimPrefix(u.adminURL, "http://")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"data directory in use", []string{"--data-dir", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, 1,
			"in use by another process"},
		{"port in use", []string{"--data-dir", other, "--listen", public, "--admin-listen", "127.0.0.1:0"}, 1, public +
			" is in use"},
		{"admin port in use", []string{"--data-dir", other, "--listen", "127.0.0.1:0", "--admin-listen", admin}, 1, admin +
			" is in use"},
		{"unknown seed", []string{"--data-dir", other, "--seed", "real"}, 2, "--seed"},
		{"unknown flag", []string{"--port", "1"}, 2, "--port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs, code := run(t, nil, "", program(t, "opportunity"), append([]string{"up"}, c.args...)...)
			require.Equal(t, c.code, code, errs)
			require.Contains(t, errs, c.says)
			require.Empty(t, out)
			if c.code == 1 {
				require.Equal(t, 1, strings.Count(errs, "\n"), errs)
			}
		})
	}
	require.NoDirExists(t, other)
	require.Equal(t, http.StatusOK,
		do(t, u.url, call{path: "/api/v1/opportunities", key: u.keys[api.Developer]}).StatusCode)
}

// TestCtrlCDrains checks that open requests complete after Ctrl-C, and that new connections are
// rejected.
func TestCtrlCDrains(t *testing.T) {
	u := up(t, filepath.Join(t.TempDir(), "data"))
	address := strings.TrimPrefix(u.url, "http://")
	conn, err := net.Dial("tcp", address) //nolint:noctx // local
	require.NoError(t, err)
	defer conn.Close()
	// The server permits the body when it handles the request, which stays in flight until the body
	// arrives.
	const form = "email=ada%40example.org&password=wrong"
	_, err = fmt.Fprintf(conn, "POST /account/sign-in HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n", address, len(form))
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	permitted, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, permitted, "100 Continue")
	_, err = in.ReadString('\n')
	require.NoError(t, err)

	u.interrupt(t)
	eventually(t, "new connections are refused", func() bool {
		c, err := net.Dial("tcp", address) //nolint:noctx // bounded by eventually
		if err != nil {
			return true
		}
		_ = c.Close()
		return false
	})
	_, err = io.WriteString(conn, form)
	require.NoError(t, err)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	require.Contains(t, string(body), "</html>")
	require.Zero(t, u.wait(t), u.out.String())
}

// logged is the log of the process so far.
func (u upProcess) logged(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(u.dir, "log.jsonl"))
	require.NoError(t, err)
	return string(text)
}
