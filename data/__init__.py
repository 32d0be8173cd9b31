"""The bundled banks and the programs that made them; see README.md."""
