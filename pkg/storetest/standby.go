package storetest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// PostgresPair is a Postgres primary with a standby, for one test. A commit waits until the standby
// has it.
type PostgresPair struct {
	URL string // of both servers, as superuser: connections go to the one that accepts writes

	t                testing.TB
	bin              string
	owner            *syscall.Credential // of the processes; nil for that of the test
	primary, standby *postgresServer
}

type postgresServer struct {
	dir, port string
	cmd       *exec.Cmd
}

// NewPostgresPair starts a pair on free loopback ports. It is stopped after the test.
func NewPostgresPair(t testing.TB) *PostgresPair {
	t.Helper()
	SkipIfQuick(t)
	found := Must(filepath.Glob("/usr/lib/postgresql/*/bin"))(t)
	require.NotEmpty(t, found, "no Postgres: run tests with scripts/with-stores, which installs it")
	p := &PostgresPair{t: t, bin: slices.Max(found)}
	if os.Getuid() == 0 { // Postgres does not run as root
		u := Must(user.Lookup("postgres"))(t)
		uid := Must(strconv.ParseUint(u.Uid, 10, 32))(t)
		gid := Must(strconv.ParseUint(u.Gid, 10, 32))(t)
		p.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	p.primary, p.standby = p.server(), p.server()
	p.URL = fmt.Sprintf("postgres://opportunity@127.0.0.1:%s,127.0.0.1:%s/postgres?sslmode=disable&"+
		"target_session_attrs=read-write", p.primary.port, p.standby.port)
	p.run("initdb", "-D", p.primary.dir, "-U", "opportunity", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8",
		"--no-sync")
	p.start(p.primary, "ready to accept connections")
	p.run("pg_basebackup", "-D", p.standby.dir, "-d", "host=127.0.0.1 user=opportunity port="+p.primary.port,
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	p.start(p.standby, "started streaming WAL")
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		require.NoError(t, administer(p.URL, statement))
	}
	// A transaction that writes returns only once the standby has it. The reload may take a moment.
	Eventually(t, "commits wait for the standby", func() bool {
		return administer(p.URL,
			"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync') THEN RAISE 'not yet'; END "+
				"IF; END $$") == nil
	})
	return p
}

func (p *PostgresPair) server() *postgresServer {
	p.t.Helper()
	_, port, err := net.SplitHostPort(FreeAddress(p.t))
	require.NoError(p.t, err)
	dir := Must(os.MkdirTemp("", "postgres"))(p.t) // the folder of a test is not open to other users
	p.t.Cleanup(func() { require.NoError(p.t, os.RemoveAll(dir)) })
	if p.owner != nil {
		require.NoError(p.t, os.Chown(dir, int(p.owner.Uid), int(p.owner.Gid)))
	}
	return &postgresServer{dir: filepath.Join(dir, "data"), port: port}
}

func (p *PostgresPair) command(name string, args ...string) *exec.Cmd {
	//nolint:noctx,gosec // a program of Postgres, ended by the cleanup
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner, Setpgid: true}
	return cmd
}

func (p *PostgresPair) run(name string, args ...string) {
	p.t.Helper()
	out, err := p.command(name, args...).CombinedOutput()
	require.NoError(p.t, err, "%s: %s", name, out)
}

func (p *PostgresPair) start(s *postgresServer, text string) {
	p.t.Helper()
	s.cmd = p.command("postgres", "-D", s.dir, "-p", s.port, "-c", "listen_addresses=127.0.0.1", "-k", filepath.Dir(s.dir),
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=100", "-c", "synchronous_commit=on",
		"-c", "dynamic_shared_memory_type=mmap") // so a killed server leaves no file outside its folder
	out := Must(s.cmd.StderrPipe())(p.t)
	require.NoError(p.t, s.cmd.Start())
	p.t.Cleanup(s.kill)
	require.True(p.t, AwaitLine(io.Reader(out), text), "postgres exited before its log had %q", text)
}

func (s *postgresServer) kill() {
	if s.cmd.ProcessState == nil {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.cmd.Wait()
	}
}

// Database creates an empty database and returns its URL. It is dropped with the pair.
func (p *PostgresPair) Database() string {
	p.t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	// With remote_apply the standby has the database too: a client that tries the standby first
	// would give up without it.
	require.NoError(p.t, administer(p.URL+"&synchronous_commit=remote_apply", "CREATE DATABASE "+name))
	return Must(on(p.URL, name))(p.t)
}

// Lag makes the standby receive nothing from now on. Commits no longer wait for it.
func (p *PostgresPair) Lag() {
	p.t.Helper()
	standby := "postgres://opportunity@127.0.0.1:" + p.standby.port + "/postgres?sslmode=disable"
	for _, c := range [][2]string{
		{p.URL, "ALTER SYSTEM RESET synchronous_standby_names"}, {p.URL, "SELECT pg_reload_conf()"},
		{standby, "ALTER SYSTEM SET primary_conninfo = ''"}, {standby, "SELECT pg_reload_conf()"},
	} {
		require.NoError(p.t, administer(c[0], c[1]))
	}
	Eventually(p.t, "the standby is disconnected", func() bool {
		return administer(p.URL, "DO $$ BEGIN IF EXISTS (SELECT FROM pg_stat_replication) THEN RAISE 'not yet'; "+
			"END IF; END $$") == nil
	})
}

// KillPrimary kills the primary.
func (p *PostgresPair) KillPrimary() { p.primary.kill() }

// PausePrimary stops all processes of the primary. Connections stay open, and new ones are accepted
// by the kernel.
func (p *PostgresPair) PausePrimary() { p.signal(syscall.SIGSTOP) }

// ResumePrimary ends PausePrimary.
func (p *PostgresPair) ResumePrimary() { p.signal(syscall.SIGCONT) }

// signal sends a signal to the first process of the primary, so that it starts no others, and then
// to those it has started.
func (p *PostgresPair) signal(sig syscall.Signal) {
	p.t.Helper()
	first := p.primary.cmd.Process.Pid
	require.NoError(p.t, syscall.Kill(first, sig))
	files := Must(filepath.Glob("/proc/[0-9]*/stat"))(p.t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var pid, parent int
		_, after, _ := strings.Cut(string(text), ") ") // the name of the program
		if _, err := fmt.Sscanf(string(text), "%d", &pid); err != nil {
			continue
		}
		if _, err := fmt.Sscanf(after, "%c %d", new(rune), &parent); err == nil && parent == first {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// Promote makes the standby the primary.
func (p *PostgresPair) Promote() {
	p.t.Helper()
	require.NoError(p.t, administer("postgres://opportunity@127.0.0.1:"+p.standby.port+"/postgres?sslmode=disable",
		"SELECT pg_promote()"))
}
