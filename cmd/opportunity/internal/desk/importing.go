package desk

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/pages"
)

// importPage is the data of the import page.
type importPage struct {
	Preview *api.ImportReport // nil before an upload
	Rows    []importRow
	Hidden  int // listings whose changes the page leaves out, to stay small
	Name    string
}

// importRow is a field that an import would change, or a listing that it would create.
type importRow struct {
	api.ListingChange

	Field *api.FieldChange // nil if created
}

// maxRows bounds the rows of the tables on a page.
const maxRows = 100

// rows returns the changes field by field, and the number of listings that did not fit.
func rows(changes []api.ListingChange) (all []importRow, hidden int) {
	for i, c := range changes {
		if len(all)+max(len(c.Fields), 1) > maxRows && i > 0 {
			return all, len(changes) - i
		}
		if len(c.Fields) == 0 {
			all = append(all, importRow{c, nil})
		}
		for j := range c.Fields {
			all = append(all, importRow{c, &c.Fields[j]})
		}
	}
	return all, 0
}

// upload is a file between its dry run and its import.
type upload struct {
	name   string
	sha256 string // of lines, from the dry run
	lines  []byte // JSON Lines
}

func (d *Desk) showImport(*visit) (view, error) {
	return view{Template: "import", Title: "Import", Data: importPage{}}, nil
}

// previewImport reads a file and shows what its import would change.
func (d *Desk) previewImport(v *visit) (view, error) {
	u, rejected, err := read(v)
	if err != nil {
		return view{Template: "import", Title: "Import", Data: importPage{},
			Errors: []pages.FormError{{Field: "file", Message: err.Error()}}}, nil
	}
	page := importPage{Preview: &api.ImportReport{Rejected: rejected}, Name: u.name}
	if len(rejected) == 0 {
		preview, err := call(v, adminapi.ImportListings,
			adminapi.Input{Query: adminapi.Query("dryRun", "true"), Body: bytes.NewReader(u.lines)})
		if err != nil {
			return view{}, err
		}
		page.Preview, u.sha256 = &preview, preview.SHA256
	}
	p := page.Preview
	page.Rows, page.Hidden = rows(p.Changes)
	page.Hidden += p.Unlisted
	if extra := len(p.Rejected) - maxRows; extra > 0 {
		p.Rejected, p.Omitted = p.Rejected[:maxRows], p.Omitted+extra
	}
	response := view{Template: "import", Title: "Import", Data: page}
	if len(p.Rejected) > 0 {
		response.Status = http.StatusUnprocessableEntity
		return response, nil
	}
	d.sessions.Keep(v.Session.ID, keptUpload, u)
	return response, nil
}

// read reads the uploaded file, the only part of the form, as JSON Lines. A CSV file is converted;
// the conversion can reject lines.
func read(v *visit) (u upload, rejected []api.RejectedLine, err error) {
	parts, err := v.MultipartReader()
	if err != nil {
		return u, nil, fmt.Errorf("choose a file")
	}
	part, err := parts.NextPart()
	if err != nil || part.FileName() == "" {
		return u, nil, fmt.Errorf("choose a file")
	}
	var lines bytes.Buffer
	u.name = part.FileName()
	if strings.HasSuffix(strings.ToLower(u.name), ".csv") {
		rejected, err = listingfile.FromCSV(part, &lines)
	} else {
		_, err = io.Copy(&lines, part)
	}
	if err != nil {
		err = fmt.Errorf("%s cannot be read: it is incomplete, larger than %d MiB, or no JSON Lines or CSV file",
			u.name, maxFile>>20)
	}
	u.lines = lines.Bytes()
	return u, rejected, err
}

// importFile imports the file of the latest dry run, if it is the one that the person confirmed.
func (d *Desk) importFile(v *visit) (view, error) {
	u, found := d.sessions.Take(v.Session.ID, keptUpload).(upload)
	if !found || u.sha256 != v.PostFormValue("sha256") {
		return view{Template: "import", Title: "Import", Data: importPage{}, Status: http.StatusConflict,
			Errors: []pages.FormError{{Field: "file",
				Message: "This dry run is no longer the latest one. Upload the file again; nothing was imported"}}}, nil
	}
	report, err := call(v, adminapi.ImportListings,
		adminapi.Input{Query: adminapi.Query("sha256", u.sha256), Body: bytes.NewReader(u.lines)})
	if err != nil {
		return view{}, err
	}
	if !report.Applied {
		return view{Template: "import", Title: "Import", Status: http.StatusUnprocessableEntity,
			Data: importPage{Preview: &api.ImportReport{Rejected: report.Rejected, Omitted: report.Omitted}, Name: u.name}}, nil
	}
	return view{Redirect: "/records?visibility=private",
		Notice: fmt.Sprintf("Imported %s: created %d, updated %d, unchanged %d.", u.name, report.Created, report.Updated,
			report.Unchanged)}, nil
}
