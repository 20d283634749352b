package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
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

// newDisk creates a disk that ends with the test.
func newDisk(t testing.TB, megabytes int) *disk {
	t.Helper()
	at, err := os.MkdirTemp("", "disk") // other users may not enter the folder of the test
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(at) })
	rights, args := []string{},
		[]string{"--mount", "sh", "-c", `mount -t tmpfs -o size="$1" tmpfs "$2" && echo mounted && exec cat`, "sh",
			fmt.Sprintf("%dm", megabytes), at}
	if os.Geteuid() != 0 {
		rights, args = []string{"--user", "--preserve-credentials"}, append([]string{"--map-root-user"}, args...)
	}
	holder := exec.Command("unshare", args...) //nolint:noctx // ended by the test
	in, err := holder.StdinPipe()              // its end stops the process
	require.NoError(t, err)
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
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

// fill writes a file until the disk is full.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.Create(d.ballast())
	require.NoError(d.t, err)
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

// free deletes the file.
func (d *disk) free() {
	if err := os.Remove(d.ballast()); !errors.Is(err, fs.ErrNotExist) {
		require.NoError(d.t, err)
	}
}

func (d *disk) ballast() string { return filepath.Join(d.outside, "ballast") }

// up starts `opportunity up` on the disk.
func (d *disk) up(t testing.TB) upProcess {
	t.Helper()
	public, admin := storetest.FreeAddress(t), storetest.FreeAddress(t)
	u := upProcess{dir: filepath.Join(d.path, "data"), deployment: deployment{
		url: "http://" + public, adminURL: "http://" + admin,
		token: []string{"OPPORTUNITY_DATA_DIR=" + filepath.Join(d.outside, "data")},
	}}
	args := append(slices.Clone(d.enter[1:]), program(t, "opportunity"), "up", "--listen", public, "--admin-listen", admin,
		"--data-dir", u.dir, "--seed", "sample")
	u.process = start(t, nil, d.enter[0], args...)
	ready(t, u.adminURL+"/readyz", u.process)
	return u
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
	row.set("0 lost of %d keys, %d revocations, %d tiers and %d events, %d writes rejected; all kept after the repair and after a restart",
		len(w.keys), len(w.revoked), w.granted, len(w.events), len(w.messages))
}
