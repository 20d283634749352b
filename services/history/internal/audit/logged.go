package audit

import (
	"bytes"

	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/services/history/internal/checkpoint"
)

// addLogged adds the checkpoints of the log with a valid signature. It adds findings for the others.
func (a *auditor) addLogged(keys checkpoint.Keys) error {
	stored, err := a.source.Logged()
	for _, c := range stored {
		signed, err := keys.Verified(c)
		if err != nil || signed.Size != c.Size || signed.Origin != c.Origin {
			a.addFinding(Checkpointed, ref{}, 0, "checkpoint of the log over %d events is not valid: %v", c.Size, err)
			continue
		}
		a.logged = append(a.logged, signed)
		a.loggedSize, a.loggedTree = signed.Size, tlog.Tree{N: signed.Size, Hash: signed.Root}
	}
	return err
}

// checkLogged compares the first size events with the checkpoints of the log of that size.
func (a *auditor) checkLogged(size int64) error {
	for ; len(a.logged) > 0 && a.logged[0].Size <= size; a.logged = a.logged[1:] {
		c := a.logged[0]
		root, err := a.tree.Root()
		switch {
		case err != nil:
			return err
		case bytes.Equal(root, c.Root[:]):
			a.loggedAfter = size
			continue
		case a.lastFound <= a.loggedAfter && !a.logUnlike:
			a.addFinding(Event, ref{sequence: a.loggedAfter + 1}, 0, "some of the events %d to %d differ from those that the log has", a.loggedAfter+1, size)
			a.lastFound = size
		}
		a.logUnlike = true
	}
	return nil
}

// tilesPerRead bounds the memory for the tiles that are verified.
const tilesPerRead = 100

// checkTiles verifies the tiles of the log against its newest checkpoint.
func (a *auditor) checkTiles() {
	all := tlog.NewTiles(checkpoint.TileHeight, 0, a.loggedTree.N)
	reader := tlog.TileHashReader(a.loggedTree, checkpoint.TileReader{Store: a.source})
	for len(all) > 0 {
		n := min(tilesPerRead, len(all))
		indexes := make([]int64, n)
		for i, t := range all[:n] {
			indexes[i] = tlog.StoredHashIndex(t.L*t.H, t.N<<t.H)
		}
		if _, err := reader.ReadHashes(indexes); err != nil {
			a.addFinding(Checkpointed, ref{}, 0, "the stored tiles of the log do not match its checkpoint: %v", err)
			return
		}
		all = all[n:]
	}
}
