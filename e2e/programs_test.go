package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

// patience bounds every wait. It does not measure speed: a test that reaches it fails. Campaigns
// and benchmarks wait longer.
var patience = 2*time.Minute + time.Duration(campaign)*time.Second

var built = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("OPPORTUNITY_E2E_BIN"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.MkdirTemp("", "opportunity-e2e")
	if err != nil {
		return "", err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	return dir, goBuild("..", dir, "./cmd/opportunity", "./services/gateway/cmd/gateway", "./services/catalog/cmd/catalog",
		"./services/history/cmd/history", "./services/authquota/cmd/authquota", "./services/billing/cmd/billing")
})

// goBuild builds programs of the module in folder into dir, without debug information, which takes
// a third of the time to link.
func goBuild(folder, dir string, packages ...string) error {
	build := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags=-s", "-o", dir + "/"}, packages...)...) //nolint:noctx,gosec // our own programs
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// remove deletes what built made.
var remove = func() {}

func program(t testing.TB, name string) string {
	t.Helper()
	dir := storetest.Must(built())(t)
	return filepath.Join(dir, name)
}

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	name   string
	out    output // standard output and standard error
	exited chan struct{}
}

// output is the path of the file with what a process prints. A benchmark may truncate it.
type output string

func (o output) String() string {
	text, _ := os.ReadFile(string(o))
	return string(text)
}

// clean returns the environment for a child process: the test's own without settings of the project
// or of telemetry, plus settings
// and a name for the audit log.
func clean(settings ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "OPPORTUNITY_") && !strings.HasPrefix(v, "OTEL_") {
			env = append(env, v)
		}
	}
	return append(append(env, "USER=e2e"), settings...)
}

// start starts a program and stops it after the test. It logs the program's output if the test
// fails.
func start(t testing.TB, settings []string, path string, args ...string) *process {
	t.Helper()
	out := storetest.Must(os.CreateTemp("", "output"))(t)
	require.NoError(t, out.Close())
	out = storetest.Must(os.OpenFile(out.Name(), os.O_WRONLY|os.O_APPEND, 0o600))(t)
	defer out.Close()
	p := &process{name: filepath.Base(path) + " " + strings.Join(args, " "), out: output(out.Name()),
		exited: make(chan struct{})}
	p.cmd = exec.Command(path, args...) //nolint:noctx // ended by the test
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = clean(settings...), out, out
	require.NoError(t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		defer os.Remove(out.Name()) //nolint:errcheck // a temporary file
		p.kill()
		if t.Failed() {
			text := p.out.String()
			t.Logf("%s printed:\n%s", p.name, text[max(0, len(text)-4000):])
		}
	})
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// interrupt asks the process to end, as Ctrl-C does.
func (p *process) interrupt(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
}

func (p *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		require.FailNow(t, p.name+" does not end", p.out.String())
		return -1
	}
}

func run(t testing.TB, settings []string, stdin, path string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	var out, err bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = clean(settings...), strings.NewReader(stdin), &out, &err
	failure := cmd.Run()
	if cmd.ProcessState == nil {
		require.NoError(t, failure)
	}
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// command runs a program that must succeed, with settings and nothing else of the project, and
// returns its standard output.
func command(t *testing.T, dir string, settings []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...) //nolint:gosec // of the tests
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, clean(settings...), &out, &errs
	require.NoError(t, cmd.Run(), "%v\n%s%s\nrun the tests with scripts/with-browser, which installs what they need",
		args, &out, &errs)
	return out.String()
}

func text(t testing.TB, file string) string {
	t.Helper()
	return string(storetest.Must(os.ReadFile(file))(t))
}

// eventually polls until asks returns true, and fails the test after patience.
func eventually(t testing.TB, what string, asks func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !asks() {
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(t, "waited in vain until "+what)
		}
	}
}

// ready waits until GET url returns 200. It fails the test if one of the processes ends first.
func ready(t testing.TB, url string, of ...*process) {
	t.Helper()
	eventually(t, url+" answers 200", func() bool {
		for _, p := range of {
			select {
			case <-p.exited:
				require.FailNow(t, p.name+" ended", p.out.String())
			default:
			}
		}
		resp, err := http.Get(url) //nolint:noctx // bounded by eventually
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// TestMain runs a baseline of a benchmark if the process was started as one.
func TestMain(m *testing.M) {
	if run := baselines[os.Getenv(baselineVariable)]; run != nil {
		fmt.Fprintln(os.Stderr, "baseline:", run())
		os.Exit(1)
	}
	flag.Parse()
	if os.Getenv("OPPORTUNITY_E2E_URL") != "" && flag.Lookup("test.run").Value.String() == "" {
		if err := flag.Set("test.run", "^("+strings.Join(ofConsumers, "|")+")$"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	closeShared()
	remove()
	os.Exit(code)
}
