package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// process is a running program that logs to a file.
type process struct {
	name   string
	log    string // path
	cmd    *exec.Cmd
	exited chan struct{}
}

// start starts a program with these settings and nothing else from the environment but the basics. dir is for its log.
func start(dir, name string, settings []string, path string, args ...string) (*process, error) {
	log, err := os.CreateTemp(dir, name+"-*.log") // appending, so that the file can be truncated
	if err != nil {
		return nil, err
	}
	defer log.Close()
	appending, err := os.OpenFile(log.Name(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	defer appending.Close()
	p := &process{name: name, log: log.Name(), cmd: exec.Command(path, args...), exited: make(chan struct{})} //nolint:gosec,noctx // stopped by stop
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, settings...)
	p.cmd.Stdout, p.cmd.Stderr = appending, appending
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	return p, nil
}

// stop ends the process and waits for it: after 10 seconds, by force.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// ready waits until GET url succeeds, for at most limit, or until one of the processes ends.
func ready(ctx context.Context, url string, limit time.Duration, processes ...*process) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		_, missing := call(ctx, http.MethodGet, url, "", "")
		if missing == nil {
			return nil
		}
		for _, p := range processes {
			select {
			case <-p.exited:
				return fmt.Errorf("%s ended before it was ready:\n%s", p.name, p.lastLines())
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready within %s: %w", limit, missing)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lastLines returns the end of the log.
func (p *process) lastLines() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-2000):])
}

// cpu returns the CPU time of the process and of its children, such as the workers of nginx. Its resolution is 10 ms.
func (p *process) cpu() (time.Duration, error) {
	return cpuTime(p.cmd.Process.Pid)
}

// ticksPerSecond is the unit of CPU times in /proc.
const ticksPerSecond = 100

func cpuTime(pid int) (time.Duration, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, each := range all {
		stat, err := each.Stat()
		if err != nil {
			continue // it ended
		}
		if stat.PID == pid {
			sum += float64(stat.CUTime+stat.CSTime) / ticksPerSecond // of children that ended
		}
		if stat.PID == pid || stat.PPID == pid {
			sum += stat.CPUTime()
		}
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// freeAddress returns a free loopback address, below the ports that the kernel gives to connections.
func freeAddress() (string, error) {
	for {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(10_000)))
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
		switch {
		case err == nil:
			return address, listener.Close()
		case !errors.Is(err, syscall.EADDRINUSE):
			return "", err
		}
	}
}

// tool runs one of the project's programs to its end and returns its standard output.
func tool(ctx context.Context, settings []string, stdin io.Reader, path string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}, settings...)
	cmd.Stdin = stdin
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil, fmt.Errorf("%s %v: %w: %s", filepath.Base(path), args, err, exit.Stderr)
	}
	return out, err
}

// memory returns the resident memory of the process in bytes, now and at most so far. It waits until the process has not returned memory for
// two seconds, because the collection after a load is not over when the process is ready.
func (p *process) memory(ctx context.Context) (now, peak uint64, err error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	for unchanged := 0; ; unchanged++ {
		status, err := proc.NewStatus()
		if err != nil {
			return 0, 0, err
		}
		if status.VmRSS+1<<20 < now {
			unchanged = 0
		}
		if now, peak = status.VmRSS, status.VmHWM; unchanged == 20 {
			return now, peak, nil
		}
		select {
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
