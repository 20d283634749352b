package e2e

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
)

// disk is a small file system in memory, in a mount namespace of its own, which needs no rights
// outside it.
type disk struct {
	t       testing.TB
	path    string
	outside string   // the path for processes outside of the namespace, except SQLite, which resolves links
	enter   []string // command line that runs a program in the namespace
}

func newDisk(t testing.TB, megabytes int) *disk {
	t.Helper()
	at := storetest.Must(os.MkdirTemp("", "disk"))(t) // other users may not enter the folder of the test
	t.Cleanup(func() { _ = os.Remove(at) })
	rights, args := []string{},
		[]string{"--mount", "sh", "-c", `mount -t tmpfs -o size="$1" tmpfs "$2" && echo mounted && exec cat`, "sh",
			fmt.Sprintf("%dm", megabytes), at}
	if os.Geteuid() != 0 {
		rights, args = []string{"--user", "--preserve-credentials"}, append([]string{"--map-root-user"}, args...)
	}
	holder := exec.Command("unshare", args...)  //nolint:noctx // ended by the test
	in := storetest.Must(holder.StdinPipe())(t) // its end stops the process
	out := storetest.Must(holder.StdoutPipe())(t)
	holder.Stderr = os.Stderr
	require.NoError(t, holder.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = holder.Wait()
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	require.Equal(t, "mounted\n", line, "no file system can be mounted in a namespace: this test needs unshare")
	pid := strconv.Itoa(holder.Process.Pid)
	return &disk{t, at, filepath.Join("/proc", pid, "root", at),
		append([]string{"nsenter", "--target", pid, "--mount"}, rights...)}
}

func (d *disk) fill() {
	d.t.Helper()
	f := storetest.Must(os.Create(d.ballast()))(d.t)
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		_, err := f.Write(block)
		if err == nil {
			continue
		}
		require.ErrorIs(d.t, err, syscall.ENOSPC)
		if len(block) == 1 {
			return
		}
		block = block[:1] // the rest of the last page
	}
}

func (d *disk) free() {
	if err := os.Remove(d.ballast()); !errors.Is(err, fs.ErrNotExist) {
		require.NoError(d.t, err)
	}
}

func (d *disk) ballast() string { return filepath.Join(d.outside, "ballast") }

func (d *disk) up(t testing.TB) upProcess {
	t.Helper()
	return upIn(t, d.enter, filepath.Join(d.path, "data"), filepath.Join(d.outside, "data"), "sample")
}

// TestFaultsDiskFull fills the disk of `opportunity up` while an operator writes. Nothing may be
// acknowledged that is lost, and everything must continue once the disk has space.
func TestFaultsDiskFull(t *testing.T) {
	t.Parallel()
	row := newResult(t, "disk full under opportunity up",
		"503 with a reason or a success that lasts; reads continue; recovery without a repair or a restart")
	d := newDisk(t, 64)
	u := d.up(t)
	s := &stack{deployment: u.deployment, gateways: []string{u.url}}
	reader := u.issue(t, api.Commercial)
	w := s.startWrites(t)
	w.succeeds(t)

	d.fill()
	for range max(campaign, 10) {
		w.rejected(t, 1)
		require.Equal(t, http.StatusOK, get(t, u.url, reader.Key, listPath).StatusCode)
	}
	d.free()
	w.succeeds(t)
	w.end()
	ready(t, u.adminURL+"/readyz", u.process)
	s.has(t, w)
	w.requireUnavailable(t)

	u.interrupt(t)
	require.Zero(t, u.wait(t))
	u = d.up(t)
	s.deployment, s.gateways = u.deployment, []string{u.url}
	s.has(t, w)
	verify := append(slices.Clone(d.enter[1:]), program(t, "opportunity"), "history", "verify")
	out, errs, code := run(t, []string{"OPPORTUNITY_DATA_DIR=" + u.dir}, "", d.enter[0], verify...)
	require.Zero(t, code, "%s%s", out, errs)
	row.set("%v; all kept after the repair and after a restart", w)
}

// TestFaultsDiskFullPostgres fills the disk of Postgres while an operator writes: first its tables
// cannot grow, and then it cannot start because its log cannot.
func TestFaultsDiskFullPostgres(t *testing.T) {
	t.Parallel()
	row := newResult(t, "disk full under Postgres, until it stops",
		"writes fail with a clear error; no acknowledged write is lost; lists and records always 200; recovery without a repair")
	d := newDisk(t, 160)
	p := newPostgresOn(t, d)
	s, readers := newStackWithReaders(t, parts{database: p.database})
	fillLog := p.logFiller()
	var all *writes
	figures := s.duringWrites(t, readers, func(w *writes) {
		all = w
		d.fill()
		w.rejected(t, 1)
		fillLog()
	}, d.free)
	all.requireUnavailable(t)
	row.set("%s; Postgres started %d times", figures, p.starts.Load())
}

// unavailable returns the number of calls that got 503. All others must have got 200.
func unavailable(t testing.TB, calls []sent) int {
	t.Helper()
	by := counts(calls)
	require.Equal(t, len(calls), by[http.StatusOK]+by[http.StatusServiceUnavailable], "%v", by)
	return by[http.StatusServiceUnavailable]
}

// postgresOn is a Postgres server on a disk. It is started again whenever it ends, as a cluster
// does.
type postgresOn struct {
	t      testing.TB
	disk   *disk
	bin    string
	url    string
	starts atomic.Int64
	names  int
}

func newPostgresOn(t testing.TB, d *disk) *postgresOn {
	t.Helper()
	found := storetest.Must(filepath.Glob("/usr/lib/postgresql/*/bin"))(t)
	require.NotEmpty(t, found, "no Postgres: run tests with scripts/with-stores, which installs it")
	_, port, err := net.SplitHostPort(storetest.FreeAddress(t))
	require.NoError(t, err)
	p := &postgresOn{t: t, disk: d, bin: slices.Max(found), url: "postgres://opportunity@127.0.0.1:" + port +
		"/postgres?sslmode=disable"}
	out, err := p.command("initdb", "-U", "opportunity", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8",
		"--no-sync", "--wal-segsize=1").CombinedOutput()
	require.NoError(t, err, "%s", out)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		p.supervise(ctx, port)
	}()
	eventually(t, "Postgres is ready", func() bool { return p.execute("SELECT 1") == nil })
	require.NoError(t, p.execute("SELECT pg_create_physical_replication_slot('lost', true)")) // of a standby that was lost
	return p
}

// command returns a command of Postgres for the data on the disk. Postgres does not run as root.
func (p *postgresOn) command(name string, args ...string) *exec.Cmd {
	line, dir := []string{}, p.disk.outside
	if os.Geteuid() == 0 {
		line, dir = append(slices.Clone(p.disk.enter), "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"),
			p.disk.path
	}
	line = append(append(line, filepath.Join(p.bin, name), "-D", filepath.Join(dir, "postgres")), args...)
	cmd := exec.Command(line[0], line[1:]...) //nolint:noctx,gosec // a program of Postgres
	cmd.Dir = "/"
	return cmd
}

func (p *postgresOn) supervise(ctx context.Context, port string) {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for ctx.Err() == nil {
		cmd := p.command("postgres", "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c",
			"fsync=off",
			"-c", "full_page_writes=off", "-c", "max_connections=100", "-c", "shared_buffers=16MB", "-c", "min_wal_size=2MB",
			"-c", "max_wal_size=4MB")
		if err := cmd.Start(); err != nil {
			p.t.Error(err)
			return
		}
		p.starts.Add(1)
		stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
		_ = cmd.Wait()
		stop()
		<-again.C
	}
}

func (p *postgresOn) execute(statement string) error {
	db, err := sql.Open("pgx", p.url)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(p.t.Context(), statement)
	return err
}

func (p *postgresOn) database() string {
	p.t.Helper()
	p.names++
	name := fmt.Sprintf("test_%d", p.names)
	require.NoError(p.t, p.execute("CREATE DATABASE "+name))
	return p.url[:len(p.url)-len("postgres?sslmode=disable")] + name + "?sslmode=disable"
}

// logFiller connects to Postgres, because on a full disk a new connection may fail before it
// writes. It returns a function that writes to the log until Postgres cannot extend it, and stops.
// The slot keeps Postgres from reusing old parts.
func (p *postgresOn) logFiller() func() {
	p.t.Helper()
	db := storetest.Must(sql.Open("pgx", p.url))(p.t)
	require.NoError(p.t, db.PingContext(p.t.Context()))
	return func() {
		p.t.Helper()
		defer db.Close()
		started := p.starts.Load()
		eventually(p.t, "Postgres stops", func() bool {
			_, _ = db.ExecContext(p.t.Context(), "SELECT pg_logical_emit_message(true, 'fill', repeat('x', 100000))")
			return p.starts.Load() > started
		})
	}
}

// TestFaultsDiskFullRedis fills the disk to which Redis appends its data, and then its memory,
// while keys are used.
func TestFaultsDiskFullRedis(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 64)
	s, readers := newStackWithReaders(t, parts{redisDir: d.outside})
	limit := func(bytes string) {
		require.NoError(t, s.redis.Client().ConfigSet(t.Context(), "maxmemory", bytes).Err())
	}
	for _, c := range []struct {
		name       string
		fill, free func()
	}{
		{"disk full under Redis, which appends its data to a file", d.fill, d.free},
		{"memory full under Redis, with noeviction", func() { limit("1") }, func() { limit("0") }},
	} {
		t.Run(c.name, func(t *testing.T) { s.fullRedis(t, readers, c.name, c.fill, c.free) })
	}
}

func (s *stack) counted(t testing.TB) int {
	t.Helper()
	n, err := s.redis.Client().HGet(t.Context(), counter.Day(counter.DayOf(time.Now())), counter.ServiceField).Int()
	require.NoError(t, err)
	return n
}

func (s *stack) fullRedis(t *testing.T, readers []caller, fault string, fill, free func()) {
	row := newResult(t, fault,
		"503, pages 200; no admitted call is forgotten, also after a restart; normal without a repair")
	before := s.counted(t)
	tr := s.send(t, rate(), readers)
	tr.succeeds()
	begin := time.Now()
	fill()
	eventually(t, "calls get 503", func() bool { return tr.count(http.StatusServiceUnavailable) > 0 })
	tr.next(duration())
	end := time.Now()
	free()
	back := tr.succeeds()
	tr.next(rate())
	calls := tr.end()
	after := s.counted(t)

	admitted, rejected := 0, 0
	for _, c := range readers {
		if c.kind == pageCall {
			require.Zero(t, unavailable(t, between(calls, c.kind, begin, back)))
			continue
		}
		rejected += unavailable(t, between(calls, c.kind, begin, time.Now()))
		admitted += counts(between(calls, c.kind, time.Time{}, time.Now()))[http.StatusOK]
	}
	require.GreaterOrEqual(t, after-before, admitted)
	s.redis.Stop()
	s.redis.Start()
	require.GreaterOrEqual(t, s.counted(t), after)
	row.set("%d calls got 503; %d admitted and %d counted, all kept after a restart; normal %.1f s after there was space",
		rejected, admitted, after-before, back.Sub(end).Seconds())
}

func (tr *traffic) count(status int) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return counts(tr.calls)[status]
}
