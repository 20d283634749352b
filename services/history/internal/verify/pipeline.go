package verify

import (
	"iter"
	"runtime"
	"sync"
)

// ahead yields the pages of read until it returns an error or no more is set. It reads the next
// page while the caller processes one, so up to three pages are in memory. read does not run after
// the iteration.
func ahead[P any](read func() (page P, more bool, err error)) iter.Seq2[P, error] {
	type result struct {
		page P
		err  error
	}
	return func(yield func(P, error) bool) {
		pages, stop := make(chan result), make(chan struct{})
		go func() {
			defer close(pages)
			for more := true; more; {
				var r result
				r.page, more, r.err = read()
				select {
				case pages <- r:
				case <-stop:
					return
				}
				more = more && r.err == nil
			}
		}()
		defer func() {
			close(stop)
			for range pages { // wait for read
			}
		}()
		for r := range pages {
			if !yield(r.page, r.err) {
				return
			}
		}
	}
}

// inParallel calls do for each number below n, on all processors.
func inParallel(n int, do func(i int)) {
	var wait sync.WaitGroup
	size := (n + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
	for from := 0; from < n; from += size {
		wait.Go(func() {
			for i := from; i < min(from+size, n); i++ {
				do(i)
			}
		})
	}
	wait.Wait()
}
