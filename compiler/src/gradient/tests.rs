mod programs;
mod text;
