mod functions;
mod programs;
mod text;
