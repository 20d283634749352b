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
	"strings"
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

// TestFaultsDiskFull fills the disk of `opportunity up` while keys are issued and revoked. Nothing
// may be acknowledged that is lost, and everything must continue once the disk has space.
func TestFaultsDiskFull(t *testing.T) {
	t.Parallel()
	row := newResult(t, "disk full under opportunity up",
		"503 with a reason or a success that lasts; reads continue; recovery without a repair or a restart")
	d := newDisk(t, 64)
	u := d.up(t)
	reader := u.issue(t, api.Commercial)
	acts := &acknowledged{u: u.deployment, keys: map[string]string{}}
	acts.change(t)
	require.Zero(t, acts.failed)

	d.fill()
	for range max(campaign, 10) {
		acts.change(t)
		a := do(t, u.url, call{path: "/api/v1/opportunities", key: reader.Key})
		require.Equal(t, http.StatusOK, a.StatusCode, "%s", a.body)
	}
	require.NotZero(t, acts.failed, "the disk is full")
	failed, kept := acts.failed, len(acts.keys)
	d.free()
	eventually(t, "changes succeed again", func() bool {
		before := acts.failed
		acts.change(t)
		return acts.failed == before
	})
	ready(t, u.adminURL+"/readyz", u.process)
	acts.require(t, u.deployment)

	u.interrupt(t)
	require.Zero(t, u.wait(t))
	u = d.up(t)
	acts.require(t, u.deployment)
	verify := append(slices.Clone(d.enter[1:]), program(t, "opportunity"), "history", "verify")
	out, errs, code := run(t, []string{"OPPORTUNITY_DATA_DIR=" + u.dir}, "", d.enter[0], verify...)
	require.Zero(t, code, "%s%s", out, errs)
	row.set("%d of %d changes rejected, %d acknowledged ones all kept after the repair and after a restart", failed,
		failed+kept, kept)
}

// acknowledged are the keys whose issuing or revocation was acknowledged, with their state by id.
type acknowledged struct {
	u      deployment
	keys   map[string]string
	failed int
}

// change issues a key and revokes it.
func (a *acknowledged) change(t testing.TB) {
	t.Helper()
	key, err := a.u.tryIssue(t, api.Free, "disk")
	if err != nil {
		a.reject(t, err)
		return
	}
	a.keys[key.ID] = "active"
	if _, err := a.u.operate(t.Context(), "/keys/"+key.ID+"/revoke", ""); err != nil {
		a.reject(t, err)
		a.keys[key.ID] = "" // the revocation may be saved
		return
	}
	a.keys[key.ID] = "revoked"
}

func (a *acknowledged) reject(t testing.TB, err error) {
	t.Helper()
	require.ErrorContains(t, err, "unavailable")
	a.failed++
}

// require checks that d has everything that was acknowledged.
func (a *acknowledged) require(t testing.TB, d deployment) {
	t.Helper()
	list := d.verb(t, "", "keys", "list", "--output", "json")
	for id, state := range a.keys {
		require.Contains(t, list, id)
		if state == "revoked" {
			_, of, _ := strings.Cut(list, id)
			require.Regexp(t, `^[^}]*"status": ?"revoked"`, of)
		}
	}
}
