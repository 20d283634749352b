package site

import (
	"embed"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/problem"
)

//go:embed static
var staticFS embed.FS

// asset returns the path of a static file.
func (s *Site) asset(name string) (string, error) {
	served, err := s.files.Name(name)
	return Home + "/static/" + served, err
}

func (s *Site) static(g *gin.Context) {
	if !s.files.Serve(g.Writer, g.Request, g.Param("file")) {
		s.page(Route{Handle: func(*Visit) (View, error) {
			return View{}, problem.New(problem.NotFound, "This file does not exist.")
		}})(g)
	}
}
