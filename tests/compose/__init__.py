"""docker-compose.yml, really started; and stand-ins for its images where no registry can be reached."""
