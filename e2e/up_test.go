package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

// deployment is a running API and the means to operate it.
type deployment struct {
	url      string
	adminURL string
	token    []string // settings that give the operator's verbs their token
	keys     map[api.Tier]string
}

// verb runs an operator command, which must succeed, and returns its standard output.
func (d deployment) verb(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, errs, code := d.tryVerb(t, stdin, args...)
	require.Zero(t, code, "%v: %s", args, errs)
	return out
}

func verbJSON[T any](t testing.TB, d deployment, args ...string) T {
	t.Helper()
	out, err := strict[T]([]byte(d.verb(t, "", append(args, "--output", "json")...)))
	require.NoError(t, err, args)
	return out
}

func (d deployment) tryVerb(t testing.TB, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return run(t, append([]string{"OPPORTUNITY_ADMIN_URL=" + d.adminURL}, d.token...), stdin, program(t, "opportunity"),
		args...)
}

// operate posts to a path of the operator API, as a verb does, whose process takes a tenth of a
// second. It returns the body of the response. A status of another class than 2xx is an error.
func (d deployment) operate(ctx context.Context, path, body string) ([]byte, error) {
	setting, token, _ := strings.Cut(d.token[0], "=")
	if setting == "OPPORTUNITY_DATA_DIR" {
		text, err := os.ReadFile(filepath.Join(token, "operator-token"))
		if err != nil {
			return nil, err
		}
		token = strings.TrimSpace(string(text))
	}
	a, err := try(ctx, d.adminURL, call{
		method: http.MethodPost, path: "/operator/v1" + path, key: token,
		header: map[string]string{"Content-Type": "application/json"}, body: strings.NewReader(body),
	})
	if err == nil && a.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %d %s", path, a.StatusCode, a.body)
	}
	return a.body, err
}

// issued is an issued key.
type issued struct {
	ID      string   `json:"id"`
	Key     string   `json:"key"`
	Account string   `json:"account"`
	Tier    api.Tier `json:"tier"`
	Expires string   `json:"expiresAt"`
}

// issue issues a key with a new account. more are further members of the request, such as
// `"expiresIn":"1s"`.
func (d deployment) issue(t testing.TB, tier api.Tier, more ...string) issued {
	t.Helper()
	key := storetest.Must(d.tryIssue(t, tier, t.Name(), more...))(t)
	require.Equal(t, tier, key.Tier)
	return key
}

func (d deployment) tryIssue(t testing.TB, tier api.Tier, useCase string, more ...string) (issued, error) {
	t.Helper()
	members := append([]string{fmt.Sprintf(`"tier":%q,"useCase":%q`, tier, useCase)}, more...)
	body, err := d.operate(t.Context(), "/keys", "{"+strings.Join(members, ",")+"}")
	if err != nil {
		return issued{}, err
	}
	key, err := strict[issued](body)
	if err != nil {
		t.Error(err)
	}
	return key, err
}

func listing(id string) string {
	return `{"id":"` + id + `","company":{"name":"Good","website":"https://good.example/"},` +
		`"applicationUrl":"https://good.example/a","category":"online","summary":"s","visibility":"published",` +
		`"sources":[{"url":"https://good.example/"}]}`
}

// linkCheck returns a line of an events file: the application link of a record works now.
func linkCheck(slug, note string) string {
	return fmt.Sprintf(`{"slug":%q,"checkedAt":%q,"checkType":"application-link","outcome":"reachable","note":%q,"sourceUrls":[]}`,
		slug, time.Now().UTC().Format(time.RFC3339Nano), note)
}

// upProcess is a running `opportunity up`.
type upProcess struct {
	deployment
	*process

	dir string
}

// up starts `opportunity up` on a data directory and free ports, and waits until it serves.
func up(t testing.TB, dir string, settings ...string) upProcess {
	t.Helper()
	return upWith(t, dir, "sample", settings...)
}

func upWith(t testing.TB, dir, seed string, settings ...string) upProcess {
	t.Helper()
	return upIn(t, nil, dir, dir, seed, settings...)
}

// upIn is upWith in a namespace that the command line enter enters. Its data directory has another
// path outside.
func upIn(t testing.TB, enter []string, dir, outside, seed string, settings ...string) upProcess {
	t.Helper()
	public, admin := storetest.FreeAddress(t), storetest.FreeAddress(t)
	u := upProcess{dir: dir, deployment: deployment{
		url: strings.Replace("http://"+public, "127.0.0.1", "localhost", 1), adminURL: "http://" + admin,
		token: []string{"OPPORTUNITY_DATA_DIR=" + outside}, keys: map[api.Tier]string{},
	}}
	line := slices.Concat(enter, []string{program(t, "opportunity"), "up", "--listen", public, "--admin-listen", admin,
		"--data-dir", dir, "--seed", seed})
	u.process = start(t, settings, line[0], line[1:]...)
	ready(t, u.adminURL+"/readyz", u.process)
	require.NoError(t, json.Unmarshal([]byte(text(t, filepath.Join(outside, "demo-keys.json"))), &u.keys))
	return u
}

// ofConsumers are the tests that need only a deployment with the sample. With OPPORTUNITY_E2E_URL
// only these run.
var ofConsumers = []string{
	"TestChargesAndHeaders", "TestErrors", "TestFilters", "TestPagesAreServed", "TestRecordsAgree",
}

// The tests that change nothing share one deployment with the sample.
var (
	sharedOnce  sync.Once
	sharedUp    deployment
	closeShared = func() {}
)

// shared returns the shared deployment for a test in ofConsumers.
func shared(t *testing.T) deployment {
	t.Helper()
	require.Contains(t, ofConsumers, t.Name(),
		"without its name there it never runs against a deployment that is already there")
	return sample(t)
}

// sample returns the shared deployment: the one at OPPORTUNITY_E2E_URL, or an `opportunity up` that
// runs until all tests end.
func sample(t *testing.T) deployment {
	t.Helper()
	sharedOnce.Do(func() {
		if url := os.Getenv("OPPORTUNITY_E2E_URL"); url != "" {
			sharedUp = deployment{
				url: url, adminURL: os.Getenv("OPPORTUNITY_E2E_ADMIN_URL"), keys: map[api.Tier]string{},
				token: []string{"OPPORTUNITY_OPERATOR_TOKEN=" + os.Getenv("OPPORTUNITY_OPERATOR_TOKEN")},
			}
			for _, tier := range api.Tiers {
				sharedUp.keys[tier.Tier] = sharedUp.issue(t, tier.Tier).Key
			}
			eventually(t, "the sample shows", func() bool {
				a := get(t, url, sharedUp.keys[api.Commercial], listPath+"?verified=true")
				return decode[api.OpportunityList](t, a).Pagination.Total > 0
			})
			return
		}
		dir := storetest.Must(os.MkdirTemp("", "opportunity-e2e-data"))(t)
		life := &lifetime{T: t}
		closeShared = func() { life.end(); _ = os.RemoveAll(dir) }
		sharedUp = up(life, filepath.Join(dir, "data")).deployment
	})
	require.NotEmpty(t, sharedUp.url, "the shared deployment did not start")
	return sharedUp
}

// lifetime is a testing.TB whose cleanups run after all tests.
type lifetime struct {
	*testing.T

	cleanups []func()
}

func (l *lifetime) Cleanup(f func())             { l.cleanups = append(l.cleanups, f) }
func (l *lifetime) Logf(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }

func (l *lifetime) end() {
	for i := range l.cleanups {
		l.cleanups[len(l.cleanups)-1-i]()
	}
}
